( trap "" TERM HUP INT; sleep 60 ) &
echo started
sleep 60
