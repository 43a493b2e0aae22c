package kernel

import (
	"math"
	"math/bits"
	"unsafe"
)

// TreeKey is a number in an order of integers: see Key32 and Key64.
type TreeKey interface{ uint32 | uint64 }

// TreeNode is a branch of a decision tree: it leads to Yes if the key of its feature is at most Most, and otherwise
// to No, which is Else bytes after Yes. Yes is an offset in a list of nodes, in bytes, and Feature one in the keys
// of TreeLanes samples. Leaves follow the branches in the list: they are nodes that lead to themselves.
type TreeNode[K TreeKey] struct {
	Most               K
	Feature, Yes, Else uint32
}

// TreeLanes is the number of samples that go through a tree at once, or of trees that a sample goes through. The
// keys of a feature for all of them are contiguous.
const TreeLanes = 8

// Key32 returns the key of a number: greater ones for greater numbers. Both zeros have the same, and no number has one
// of the 2^16 least or greatest keys, which are for NaN.
func Key32(x float32) uint32 {
	u := math.Float32bits(x + 0) // of both zeros, the positive one
	return u ^ (uint32(int32(u)>>31) | 1<<31)
}

// Key64 is Key32 for float64.
func Key64(x float64) uint64 {
	u := math.Float64bits(x + 0)
	return u ^ (uint64(int64(u)>>63) | 1<<63)
}

// Keys32 sets every TreeLanes-th element of dst to the key of x[used[i]], or nan.
func Keys32(dst []uint32, x []float32, used []int32, nan uint32) {
	for i, at := range used {
		f := x[at]
		k := Key32(f)
		if f != f {
			k = nan
		}
		dst[i*TreeLanes] = k
	}
}

// Keys64 is Keys32 for numbers that are compared as float64.
func Keys64[T float64 | int32 | int64](dst []uint64, x []T, used []int32, nan uint64) {
	for i, at := range used {
		f := float64(x[at])
		k := Key64(f)
		if f != f {
			k = nan
		}
		dst[i*TreeLanes] = k
	}
}

// WalkTrees moves TreeLanes samples to leaves, starting from the nodes at. Nodes from offset leaves on are leaves.
// All offsets must be within nodes and keys. It returns the number of nodes that it has read.
func WalkTrees[K TreeKey](nodes []TreeNode[K], leaves uint32, keys []K, at *[TreeLanes]uint32) (read int) {
	base, key := unsafe.Pointer(unsafe.SliceData(nodes)), unsafe.Pointer(unsafe.SliceData(keys))
	a, b, c, d, e, f, g, h := at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]
	for min(a, b, c, d, e, f, g, h) < leaves {
		a = next[K](base, key, a, 0)
		b = next[K](base, key, b, 1)
		c = next[K](base, key, c, 2)
		d = next[K](base, key, d, 3)
		e = next[K](base, key, e, 4)
		f = next[K](base, key, f, 5)
		g = next[K](base, key, g, 6)
		h = next[K](base, key, h, 7)
		read += TreeLanes
	}
	*at = [TreeLanes]uint32{a, b, c, d, e, f, g, h}
	return read + TreeLanes
}

// next returns the node after the one at offset at, for one of the samples.
func next[K TreeKey](base, key unsafe.Pointer, at uint32, lane uintptr) uint32 {
	n := (*TreeNode[K])(unsafe.Add(base, at))
	k := *(*K)(unsafe.Add(key, uintptr(n.Feature)+lane*unsafe.Sizeof(K(0))))
	_, above := bits.Sub64(uint64(n.Most), uint64(k), 0)
	return n.Yes + n.Else&-uint32(above) // without a jump, which would be mispredicted
}

// WalkSamples moves samples, n ≤ TreeLanes rows of cols numbers, through one tree to leaves, starting from the
// nodes at, like WalkTrees. Feature of a node is twice the column, plus one if NaN has the greatest key there
// instead of the smallest. It returns the number of nodes that it has read.
func WalkSamples(nodes []TreeNode[uint32], leaves uint32, x []float32, cols, n int, at *[TreeLanes]uint32) (read int) {
	if n == 0 {
		return 0
	}
	base := unsafe.Pointer(unsafe.SliceData(nodes))
	_ = x[n*cols-1]
	var rows [TreeLanes]unsafe.Pointer
	for i := range rows { // the last one again, where there are fewer
		rows[i] = unsafe.Pointer(&x[min(i, n-1)*cols])
	}
	a, b, c, d, e, f, g, h := at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]
	for min(a, b, c, d, e, f, g, h) < leaves {
		a = nextOf(base, rows[0], a)
		b = nextOf(base, rows[1], b)
		c = nextOf(base, rows[2], c)
		d = nextOf(base, rows[3], d)
		e = nextOf(base, rows[4], e)
		f = nextOf(base, rows[5], f)
		g = nextOf(base, rows[6], g)
		h = nextOf(base, rows[7], h)
		read += TreeLanes
	}
	*at = [TreeLanes]uint32{a, b, c, d, e, f, g, h}
	return read + TreeLanes
}

// nextOf is next for a sample's numbers themselves.
func nextOf(base, row unsafe.Pointer, at uint32) uint32 {
	n := (*TreeNode[uint32])(unsafe.Add(base, at))
	x := *(*float32)(unsafe.Add(row, uintptr(n.Feature>>1)*unsafe.Sizeof(float32(0))))
	k := Key32(x)
	if x != x {
		k = 1 - 2*(n.Feature&1)
	}
	_, above := bits.Sub64(uint64(n.Most), uint64(k), 0)
	return n.Yes + n.Else&-uint32(above)
}
