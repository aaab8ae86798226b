yes | head -1
echo "${PIPESTATUS[@]}"
