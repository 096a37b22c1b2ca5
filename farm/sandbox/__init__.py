"""Runs programs a model wrote and judges them where they cannot reach the judge.

Three processes take part. The *zygote* of a slot is warmed up once and forks the other two for
each program. The *candidate* owns the program and answers calls; the *tester* owns the assertions,
the expected values and the verdict pipe. Between them go plain values only, so nothing the
program does to its own process can change what is reported.
"""
