package kernel

import "sync"

// maxCodes bounds the codes that are kept. Expressions hold constants, of which models may have any number.
const maxCodes = 512

var codes = struct {
	sync.Mutex
	of map[string]*Code
}{of: map[string]*Code{}}

// cachedCode returns the code that make returned for the key before, or returns now. Equal keys must stand for equal codes.
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
