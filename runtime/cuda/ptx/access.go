package ptx

// LoadF32 reads the number offset bytes on.
func (a Addr) LoadF32(offset int) F32 { return F32{load(a.v, "global", "f32", f32Class, offset)} }

// StoreF32 writes the number offset bytes on.
func (a Addr) StoreF32(offset int, x F32) { store(a.v, "global", "f32", offset, x.v) }

// LoadF32s reads n numbers at once, 2 or 4. The address must be a multiple of their total size.
func (a Addr) LoadF32s(offset, n int) []F32 {
	var out []F32
	for _, v := range loads(a.v, "global", "f32", f32Class, offset, n) {
		out = append(out, F32{v})
	}
	return out
}

// StoreF32s writes 2 or 4 numbers at once. The address must be a multiple of their total size.
func (a Addr) StoreF32s(offset int, x ...F32) {
	var all []value
	for _, v := range x {
		all = append(all, v.v)
	}
	store(a.v, "global", "f32", offset, all...)
}

// LoadF64 reads the number offset bytes on.
func (a Addr) LoadF64(offset int) F64 { return F64{load(a.v, "global", "f64", f64Class, offset)} }

// StoreF64 writes the number offset bytes on.
func (a Addr) StoreF64(offset int, x F64) { store(a.v, "global", "f64", offset, x.v) }

// LoadF64s reads n = 2 numbers at once. The address must be a multiple of their total size.
func (a Addr) LoadF64s(offset, n int) []F64 {
	var out []F64
	for _, v := range loads(a.v, "global", "f64", f64Class, offset, n) {
		out = append(out, F64{v})
	}
	return out
}

// StoreF64s writes 2 numbers at once. The address must be a multiple of their total size.
func (a Addr) StoreF64s(offset int, x ...F64) {
	var all []value
	for _, v := range x {
		all = append(all, v.v)
	}
	store(a.v, "global", "f64", offset, all...)
}

// LoadU32 reads the number offset bytes on.
func (a Addr) LoadU32(offset int) U32 { return U32{load(a.v, "global", "u32", b32Class, offset)} }

// StoreU32 writes the number offset bytes on.
func (a Addr) StoreU32(offset int, x U32) { store(a.v, "global", "u32", offset, x.v) }

// LoadU32s reads n numbers at once, 2 or 4. The address must be a multiple of their total size.
func (a Addr) LoadU32s(offset, n int) []U32 {
	var out []U32
	for _, v := range loads(a.v, "global", "u32", b32Class, offset, n) {
		out = append(out, U32{v})
	}
	return out
}

// StoreU32s writes 2 or 4 numbers at once. The address must be a multiple of their total size.
func (a Addr) StoreU32s(offset int, x ...U32) {
	var all []value
	for _, v := range x {
		all = append(all, v.v)
	}
	store(a.v, "global", "u32", offset, all...)
}

// LoadS32 reads the number offset bytes on.
func (a Addr) LoadS32(offset int) S32 { return S32{load(a.v, "global", "u32", b32Class, offset)} }

// StoreS32 writes the number offset bytes on.
func (a Addr) StoreS32(offset int, x S32) { store(a.v, "global", "u32", offset, x.v) }

// LoadU64 reads the number offset bytes on.
func (a Addr) LoadU64(offset int) U64 { return U64{load(a.v, "global", "u64", b64Class, offset)} }

// StoreU64 writes the number offset bytes on.
func (a Addr) StoreU64(offset int, x U64) { store(a.v, "global", "u64", offset, x.v) }

// LoadB16 reads the number offset bytes on.
func (a Addr) LoadB16(offset int) B16 { return B16{load(a.v, "global", "u16", b16Class, offset)} }

// StoreB16 writes the number offset bytes on.
func (a Addr) StoreB16(offset int, x B16) { store(a.v, "global", "u16", offset, x.v) }

// LoadU8 reads the byte offset bytes on.
func (a Addr) LoadU8(offset int) U32 {
	return U32{a.v.k.compute(b32Class, "ld.global.u8", at(a.v, offset))}
}

// StoreU8 writes the lowest byte of x offset bytes on.
func (a Addr) StoreU8(offset int, x U32) { store(a.v, "global", "u8", offset, x.v) }

// LoadF32 reads the number offset bytes on.
func (a Shared) LoadF32(offset int) F32 { return F32{load(a.v, "shared", "f32", f32Class, offset)} }

// StoreF32 writes the number offset bytes on.
func (a Shared) StoreF32(offset int, x F32) { store(a.v, "shared", "f32", offset, x.v) }

// LoadF32s reads n numbers at once, 2 or 4. The address must be a multiple of their total size.
func (a Shared) LoadF32s(offset, n int) []F32 {
	var out []F32
	for _, v := range loads(a.v, "shared", "f32", f32Class, offset, n) {
		out = append(out, F32{v})
	}
	return out
}

// StoreF32s writes 2 or 4 numbers at once. The address must be a multiple of their total size.
func (a Shared) StoreF32s(offset int, x ...F32) {
	var all []value
	for _, v := range x {
		all = append(all, v.v)
	}
	store(a.v, "shared", "f32", offset, all...)
}

// LoadF64 reads the number offset bytes on.
func (a Shared) LoadF64(offset int) F64 { return F64{load(a.v, "shared", "f64", f64Class, offset)} }

// StoreF64 writes the number offset bytes on.
func (a Shared) StoreF64(offset int, x F64) { store(a.v, "shared", "f64", offset, x.v) }

// LoadF64s reads n = 2 numbers at once. The address must be a multiple of their total size.
func (a Shared) LoadF64s(offset, n int) []F64 {
	var out []F64
	for _, v := range loads(a.v, "shared", "f64", f64Class, offset, n) {
		out = append(out, F64{v})
	}
	return out
}

// StoreF64s writes 2 numbers at once. The address must be a multiple of their total size.
func (a Shared) StoreF64s(offset int, x ...F64) {
	var all []value
	for _, v := range x {
		all = append(all, v.v)
	}
	store(a.v, "shared", "f64", offset, all...)
}

// LoadU32 reads the number offset bytes on.
func (a Shared) LoadU32(offset int) U32 { return U32{load(a.v, "shared", "u32", b32Class, offset)} }

// StoreU32 writes the number offset bytes on.
func (a Shared) StoreU32(offset int, x U32) { store(a.v, "shared", "u32", offset, x.v) }

// LoadU32s reads n numbers at once, 2 or 4. The address must be a multiple of their total size.
func (a Shared) LoadU32s(offset, n int) []U32 {
	var out []U32
	for _, v := range loads(a.v, "shared", "u32", b32Class, offset, n) {
		out = append(out, U32{v})
	}
	return out
}

// StoreU32s writes 2 or 4 numbers at once. The address must be a multiple of their total size.
func (a Shared) StoreU32s(offset int, x ...U32) {
	var all []value
	for _, v := range x {
		all = append(all, v.v)
	}
	store(a.v, "shared", "u32", offset, all...)
}

// LoadS32 reads the number offset bytes on.
func (a Shared) LoadS32(offset int) S32 { return S32{load(a.v, "shared", "u32", b32Class, offset)} }

// StoreS32 writes the number offset bytes on.
func (a Shared) StoreS32(offset int, x S32) { store(a.v, "shared", "u32", offset, x.v) }

// LoadU64 reads the number offset bytes on.
func (a Shared) LoadU64(offset int) U64 { return U64{load(a.v, "shared", "u64", b64Class, offset)} }

// StoreU64 writes the number offset bytes on.
func (a Shared) StoreU64(offset int, x U64) { store(a.v, "shared", "u64", offset, x.v) }

// LoadB16 reads the number offset bytes on.
func (a Shared) LoadB16(offset int) B16 { return B16{load(a.v, "shared", "u16", b16Class, offset)} }

// StoreB16 writes the number offset bytes on.
func (a Shared) StoreB16(offset int, x B16) { store(a.v, "shared", "u16", offset, x.v) }

// LoadU8 reads the byte offset bytes on.
func (a Shared) LoadU8(offset int) U32 {
	return U32{a.v.k.compute(b32Class, "ld.shared.u8", at(a.v, offset))}
}

// StoreU8 writes the lowest byte of x offset bytes on.
func (a Shared) StoreU8(offset int, x U32) { store(a.v, "shared", "u8", offset, x.v) }

// ConstF32 is LoadF32 for memory that no launch of this kernel writes, so that it can be cached.
func (a Addr) ConstF32(offset int) F32 { return F32{load(a.v, "global.nc", "f32", f32Class, offset)} }

// ConstF32s is LoadF32s for memory that no launch of this kernel writes: 2 or 4 numbers.
func (a Addr) ConstF32s(offset, n int) []F32 {
	var out []F32
	for _, v := range loads(a.v, "global.nc", "f32", f32Class, offset, n) {
		out = append(out, F32{v})
	}
	return out
}

// ConstF64 is LoadF64 for memory that no launch of this kernel writes, so that it can be cached.
func (a Addr) ConstF64(offset int) F64 { return F64{load(a.v, "global.nc", "f64", f64Class, offset)} }

// ConstF64s is LoadF64s for memory that no launch of this kernel writes: 2 numbers.
func (a Addr) ConstF64s(offset, n int) []F64 {
	var out []F64
	for _, v := range loads(a.v, "global.nc", "f64", f64Class, offset, n) {
		out = append(out, F64{v})
	}
	return out
}

// ConstU32 is LoadU32 for memory that no launch of this kernel writes, so that it can be cached.
func (a Addr) ConstU32(offset int) U32 { return U32{load(a.v, "global.nc", "u32", b32Class, offset)} }

// ConstU32s is LoadU32s for memory that no launch of this kernel writes: 2 or 4 numbers.
func (a Addr) ConstU32s(offset, n int) []U32 {
	var out []U32
	for _, v := range loads(a.v, "global.nc", "u32", b32Class, offset, n) {
		out = append(out, U32{v})
	}
	return out
}
