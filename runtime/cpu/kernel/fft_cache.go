package kernel

import "sync"

// The cache keeps the most recently used plans. Their number and total length are limited, so that lengths that come
// from data cannot fill the memory.
const (
	cachedPlans  = 32
	cachedPoints = 1 << 20
)

var dfts struct {
	sync.Mutex
	plans  []*DFT // by last use, the latest at the end
	points int
}

// DFTOf returns a plan as NewDFT does, from a cache if it holds one. The plan may be prepared already.
func DFTOf(n int, real bool) *DFT {
	if d := cached(n, real); d != nil {
		return d
	}
	d := NewDFT(n, real)
	if n > cachedPoints/4 {
		return d
	}
	dfts.Lock()
	defer dfts.Unlock()
	dfts.plans, dfts.points = append(dfts.plans, d), dfts.points+n
	for len(dfts.plans) > cachedPlans || dfts.points > cachedPoints {
		dfts.points -= dfts.plans[0].n
		dfts.plans = append(dfts.plans[:0:0], dfts.plans[1:]...)
	}
	return d
}

func cached(n int, real bool) *DFT {
	dfts.Lock()
	defer dfts.Unlock()
	for i, d := range dfts.plans {
		if d.n == n && d.real == real {
			last := len(dfts.plans) - 1
			copy(dfts.plans[i:], dfts.plans[i+1:])
			dfts.plans[last] = d
			return d
		}
	}
	return nil
}
