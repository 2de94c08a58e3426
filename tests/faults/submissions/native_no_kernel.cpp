// expect: compile error
// needs: g++
int kernel() { return 0; }
