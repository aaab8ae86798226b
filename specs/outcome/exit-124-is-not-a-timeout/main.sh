exit 124
