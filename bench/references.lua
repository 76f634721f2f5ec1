-- One row at a time into a table of children (bench/references.py).
--
-- Options: --children the table, --parents how many parents there are.
sysbench.cmdline.options = {
   children = {"Table that is inserted into", "plain"},
   parents = {"Parents, from 0", 10000},
}

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
end

function thread_done()
   con:disconnect()
end

function event()
   local parent = sysbench.rand.uniform(0, sysbench.opt.parents - 1)
   con:query(string.format("INSERT INTO %s (parent, note) VALUES (%d, 'what the child of %d has to say')",
                           sysbench.opt.children, parent, parent))
end
