package kernel

import "github.com/essmc/essmc/runtime/cuda/ptx"

// cellNumbers are numbers of a block, in shared memory or in device memory.
type cellNumbers struct {
	shared ptx.Shared
	device ptx.Addr
	apart  bool // in memory of the device
}

// add returns the numbers from index n on.
func (c cellNumbers) add(n int) cellNumbers {
	if c.apart {
		return cellNumbers{device: c.device.Add(ptx.L(uint64(4 * n))), apart: true}
	}
	return cellNumbers{shared: c.shared.Add(ptx.U(4 * n))}
}

// at returns the numbers from index i on.
func (c cellNumbers) at(i ptx.U32) cellNumbers {
	if c.apart {
		return cellNumbers{device: c.device.Index(i, 4), apart: true}
	}
	return cellNumbers{shared: c.shared.Index(i, 4)}
}

// load reads number i.
func (c cellNumbers) load(i int) ptx.F32 {
	if c.apart {
		return c.device.LoadF32(4 * i)
	}
	return c.shared.LoadF32(4 * i)
}

// store writes the first number.
func (c cellNumbers) store(x ptx.F32) {
	if c.apart {
		c.device.StoreF32(0, x)
	} else {
		c.shared.StoreF32(0, x)
	}
}

// variable returns numbers whose start set can change.
func (c cellNumbers) variable(k *ptx.Kernel) cellNumbers {
	if c.apart {
		return cellNumbers{device: k.VarAddr(c.device), apart: true}
	}
	return cellNumbers{shared: ptx.Shared(k.VarU32(c.shared.U32()))}
}

func (c cellNumbers) set(d cellNumbers) {
	if c.apart {
		c.device.Set(d.device)
	} else {
		c.shared.U32().Set(d.shared.U32())
	}
}
