#include <stdio.h>
int main(void) { fclose(fopen("made", "w")); return 0; }
