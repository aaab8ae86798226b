puts "ruby #{ARGV[0]}"
