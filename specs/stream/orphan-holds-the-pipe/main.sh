sleep 60 &
echo done
