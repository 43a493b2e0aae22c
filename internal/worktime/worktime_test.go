package worktime

import (
	"testing"
	"time"
)

// Work counts, waiting does not.
func TestNow(t *testing.T) {
	before := Now()
	x := 1.0
	for start := time.Now(); Now()-before < 5*time.Millisecond; {
		if x *= 1.0000001; time.Since(start) > 30*time.Second {
			t.Fatalf("working for %v counts as %v", time.Since(start), Now()-before)
		}
	}
	before = Now()
	time.Sleep(50 * time.Millisecond)
	if took := Now() - before; took > 40*time.Millisecond {
		t.Logf("sleeping took %v of work: here wall clock stands for it", took)
	}
}
