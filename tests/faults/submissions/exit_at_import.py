# expect: runtime error
raise SystemExit(0)
