package emu

import "github.com/essmc/essmc/runtime/cuda/driver"

// special returns the content of a special register for a lane.
type special func(w *warp, lane int) uint32

// specialRegisters are the special registers that kernels may read.
var specialRegisters = map[string]special{
	"%laneid":      func(_ *warp, lane int) uint32 { return uint32(lane) },
	"%warpid":      func(w *warp, _ int) uint32 { return uint32(w.number) },
	"%nwarpid":     func(*warp, int) uint32 { return 64 },
	"%smid":        func(w *warp, _ int) uint32 { return uint32(w.block.number) % 132 },
	"%lanemask_eq": func(_ *warp, lane int) uint32 { return 1 << lane },
	"%lanemask_lt": func(_ *warp, lane int) uint32 { return 1<<lane - 1 },
	"%lanemask_le": func(_ *warp, lane int) uint32 { return 1<<lane | (1<<lane - 1) },
	"%lanemask_gt": func(_ *warp, lane int) uint32 { return ^uint32(1<<lane | (1<<lane - 1)) },
	"%lanemask_ge": func(_ *warp, lane int) uint32 { return ^uint32(1<<lane - 1) },

	"%dynamic_smem_size": func(w *warp, _ int) uint32 { return w.block.launch.dynamic },
	"%total_smem_size": func(w *warp, _ int) uint32 {
		l := w.block.launch
		return uint32(l.kernel.shared-sharedBase) + l.dynamic
	},
}

func init() {
	for name, of := range map[string]func(w *warp, lane int) driver.Dim{
		"%tid":    func(w *warp, lane int) driver.Dim { return w.thread(lane) },
		"%ntid":   func(w *warp, _ int) driver.Dim { return w.block.launch.block },
		"%ctaid":  func(w *warp, _ int) driver.Dim { return w.block.at },
		"%nctaid": func(w *warp, _ int) driver.Dim { return w.block.launch.grid },
	} {
		specialRegisters[name+".x"] = func(w *warp, lane int) uint32 { return of(w, lane).X }
		specialRegisters[name+".y"] = func(w *warp, lane int) uint32 { return of(w, lane).Y }
		specialRegisters[name+".z"] = func(w *warp, lane int) uint32 { return of(w, lane).Z }
	}
}
