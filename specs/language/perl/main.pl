print "perl $ARGV[0]\n";
