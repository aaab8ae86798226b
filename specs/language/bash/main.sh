echo "bash $1"
