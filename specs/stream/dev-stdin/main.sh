cat /dev/stdin > /dev/stdout
