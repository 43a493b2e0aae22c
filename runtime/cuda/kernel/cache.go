package kernel

import "sync"

// maxCodes is the maximum number of cached codes. It is needed because expressions contain constants, and models may
// have any number of these.
const maxCodes = 512

var codes = struct {
	sync.Mutex
	of map[string]*Code
}{of: map[string]*Code{}}

// cachedCode returns the cached code for a key, or the result of make. Equal keys must mean equal codes.
func cachedCode(key string, make func() *Code) *Code {
	codes.Lock()
	c := codes.of[key]
	codes.Unlock()
	if c != nil {
		return c
	}
	c = make()
	codes.Lock()
	defer codes.Unlock()
	if len(codes.of) >= maxCodes {
		clear(codes.of)
	}
	codes.of[key] = c
	return c
}
