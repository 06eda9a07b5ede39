"""Threads that use one tensor concurrently: values may race, memory must stay valid."""

import threading

import strata


def test_threads_resize_one_out_tensor():
    out, errors = strata.empty(0), []

    def write(n):
        x = strata.ones(n)
        try:
            for _ in range(200):
                strata.add(x, 1, out=out)
                out.sum()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=write, args=(n,)) for n in (5, 100000, 7, 100000)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert set(out.tolist()) == {2.0}
