package ptx

import "fmt"

// Kernel parameters, the indices of threads and blocks, and shared memory.

func (k *Kernel) param(name, typ string, size int) string {
	for _, p := range k.params {
		if p.Name == name {
			panic("ptx: kernel " + k.Name + " has two parameters named " + name)
		}
	}
	at := (k.size + size - 1) / size * size
	k.params, k.size = append(k.params, Param{Name: name, Type: typ, Offset: at, Size: size}), at+size
	return "[" + name + "]"
}

// PtrParam adds a parameter: an address in global memory.
func (k *Kernel) PtrParam(name string) Addr {
	a := k.compute(b64Class, "ld.param.u64", k.param(name, "u64", 8))
	return Addr{v: k.compute(b64Class, "cvta.to.global.u64", a)}
}

// U32Param adds a parameter: an unsigned number.
func (k *Kernel) U32Param(name string) U32 {
	return U32{k.compute(b32Class, "ld.param.u32", k.param(name, "u32", 4))}
}

// S32Param adds a parameter: a signed number.
func (k *Kernel) S32Param(name string) S32 {
	return S32{k.compute(b32Class, "ld.param.u32", k.param(name, "u32", 4))}
}

// U64Param adds a parameter: an unsigned number.
func (k *Kernel) U64Param(name string) U64 {
	return U64{k.compute(b64Class, "ld.param.u64", k.param(name, "u64", 8))}
}

// F32Param adds a parameter.
func (k *Kernel) F32Param(name string) F32 {
	return F32{k.compute(f32Class, "ld.param.f32", k.param(name, "f32", 4))}
}

// F64Param adds a parameter.
func (k *Kernel) F64Param(name string) F64 {
	return F64{k.compute(f64Class, "ld.param.f64", k.param(name, "f64", 8))}
}

// specialReg reads a special register at the current position. Code outside all control flow and guards shares one
// read; other code reads it anew.
func (k *Kernel) specialReg(name string) U32 {
	if v, ok := k.special[name]; ok {
		return v
	}
	v := U32{k.compute(b32Class, "mov.u32", "%"+name)}
	if k.depth == 0 && k.guard == nil {
		if k.special == nil {
			k.special = map[string]U32{}
		}
		k.special[name] = v
	}
	return v
}

// ThreadX returns the thread's index in its block.
func (k *Kernel) ThreadX() U32 { return k.specialReg("tid.x") }

// BlockDimX returns the number of threads of a block.
func (k *Kernel) BlockDimX() U32 { return k.specialReg("ntid.x") }

// BlockX returns the block's index in the grid along x.
func (k *Kernel) BlockX() U32 { return k.specialReg("ctaid.x") }

// BlockY returns the block's index in the grid along y.
func (k *Kernel) BlockY() U32 { return k.specialReg("ctaid.y") }

// BlockZ returns the block's index in the grid along z.
func (k *Kernel) BlockZ() U32 { return k.specialReg("ctaid.z") }

// GridX returns the number of blocks along x.
func (k *Kernel) GridX() U32 { return k.specialReg("nctaid.x") }

// GridY returns the number of blocks along y.
func (k *Kernel) GridY() U32 { return k.specialReg("nctaid.y") }

// Lane returns the thread's index in its warp, from 0 to 31.
func (k *Kernel) Lane() U32 { return k.specialReg("laneid") }

// SharedArray declares bytes bytes of shared memory of a block, aligned to align.
func (k *Kernel) SharedArray(bytes, align int) Shared {
	name := fmt.Sprintf("shared%d", len(k.shared))
	k.shared = append(k.shared, sharedArray{name, bytes, align})
	return Shared{v: k.compute(b32Class, "mov.u32", name)}
}

// DynamicShared gives the kernel bytes bytes of shared memory, aligned to 16, whose size each launch must pass. Only
// dynamic shared memory may exceed 48 kB. A kernel can have one such array.
func (k *Kernel) DynamicShared(bytes int) Shared {
	if k.dynamic != 0 {
		panic("ptx: kernel " + k.Name + " has dynamic shared memory already")
	}
	k.dynamic = bytes
	return Shared{v: k.compute(b32Class, "mov.u32", "dynamic_"+k.Name)}
}

// DynamicBytes returns the size of the shared memory that launches must request.
func (k *Kernel) DynamicBytes() int { return k.dynamic }
