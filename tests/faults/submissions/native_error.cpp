// expect: compile error
// needs: g++
int main( { return undeclared; }
