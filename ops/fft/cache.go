package fft

import "sync"

// The cache holds the plans of the last used lengths. It bounds their number and their total size, because lengths come
// from data.
const (
	cachedPlans  = 32
	cachedPoints = 1 << 21
)

var cache struct {
	sync.Mutex
	plans  []*Plan // in the order of their last use
	points int
}

// Of returns a plan for length n. It takes it from the cache if it is there.
func Of(n int, step Step) *Plan {
	n = max(n, 1)
	cache.Lock()
	for i, p := range cache.plans {
		if p.n == n {
			copy(cache.plans[i:], cache.plans[i+1:])
			cache.plans[len(cache.plans)-1] = p
			cache.Unlock()
			return p
		}
	}
	cache.Unlock()
	p := New(n, step)
	if n > cachedPoints/4 {
		return p
	}
	cache.Lock()
	defer cache.Unlock()
	for _, q := range cache.plans { // made by another goroutine meanwhile
		if q.n == n {
			return q
		}
	}
	cache.plans, cache.points = append(cache.plans, p), cache.points+n
	for len(cache.plans) > cachedPlans || cache.points > cachedPoints {
		cache.points -= cache.plans[0].n
		cache.plans = append(cache.plans[:0:0], cache.plans[1:]...)
	}
	return p
}
