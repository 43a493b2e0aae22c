package models

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// keyPlaces finds the index of a number among keys.
type keyPlaces struct {
	from   int64
	dense  []int64         // indexed by number, starting at from; -1 for none
	sparse map[int64]int64 // nil if dense is set
}

// keySize is the approximate size of a key in a map, in bytes.
const keySize = 48

// newKeyPlaces makes the table of keys. Of equal keys it takes the last, or the first.
func newKeyPlaces(d *lowering.Binding, keys []int64, last bool) *keyPlaces {
	p := &keyPlaces{}
	if len(keys) == 0 {
		return p
	}
	least, most := keys[0], keys[0]
	for _, k := range ops.All(d.Steps(), keys) {
		least, most = min(least, k), max(most, k)
	}
	if span := uint64(most) - uint64(least); span < uint64(4*len(keys)+256) {
		p.from, p.dense = least, lowering.Make[int64](d, int(span)+1)
		for i := range ops.Each(d.Steps(), len(p.dense)) {
			p.dense[i] = -1
		}
		for i, k := range ops.All(d.Steps(), keys) {
			if at := uint64(k) - uint64(least); last || p.dense[at] < 0 {
				p.dense[at] = int64(i)
			}
		}
		return p
	}
	p.sparse = placesOf(d, keys, last)
	return p
}

// placesOf returns the index of each key. Of equal keys it takes the last, or the first.
func placesOf[K comparable](d *lowering.Binding, keys []K, last bool) map[K]int64 {
	d.Charge(int64(len(keys)) * keySize)
	places := map[K]int64{}
	for i := range ops.Costly(d.Steps(), len(keys), 8) {
		if _, ok := places[keys[i]]; last || !ok {
			places[keys[i]] = int64(i)
		}
	}
	return places
}

// of returns the index of a number, or -1.
func (p *keyPlaces) of(v int64) int64 {
	if p.sparse == nil {
		if i := uint64(v) - uint64(p.from); i < uint64(len(p.dense)) {
			return p.dense[i]
		}
		return -1
	}
	if i, ok := p.sparse[v]; ok {
		return i
	}
	return -1
}
