-- One row at a time, with numbers of an index between two bounds (bench/ranges.py).
--
-- Options: --low and --high, the bounds.
sysbench.cmdline.options = {
   low = {"Least number", 0},
   high = {"Greatest number", 1},
}

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
end

function thread_done()
   con:disconnect()
end

function event()
   local k = sysbench.rand.uniform(sysbench.opt.low, sysbench.opt.high)
   con:query(string.format("INSERT INTO t (k, note) VALUES (%d, 'what number %d has to say')", k, k))
end
