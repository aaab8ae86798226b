<?php echo "php {$argv[1]}\n";
