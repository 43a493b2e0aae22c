package recurrence

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/device"
)

// scanned records that a step runs as a recurrence, and why it has no other form.
func scanned(b *record.Builder, why string) {
	if form := b.Binding.Program.Config.Kernel; form != essm.FormAuto && form != "" && form != essm.FormScan {
		why = essm.Refused(form, why)
	}
	b.Form(device.Form{Name: essm.FormScan, Why: why})
}

// Reasons for scans.
const (
	noOther = "the operator has no other form here"
	alone   = "it is computed with what follows it; direct and fft compute the system separately, on request"
	systems = "systems of several inputs and outputs have no other form here"
	carries = "a state before the first or after the last step needs a recurrence"
)

// convolution is a convolution that may be computed by Fourier transforms.
type convolution interface {
	Transforms() bool
	Points() (n, levels int)
	TransformTime() float64
	DirectTime() float64
}

// choose returns whether a convolution is computed by transforms. ok is false if the convolution is not requested
// and takes at least other picoseconds per number. other is infinite if there is no recurrence.
func choose(b *record.Builder, c convolution, other float64) (transforms, ok bool) {
	asked := b.Binding.Program.Config.Kernel
	fast, direct := c.TransformTime(), c.DirectTime()
	transforms, ok = fast < direct, min(fast, direct) < other
	why := "the smallest estimated time"
	switch {
	case asked == essm.FormFFT && !c.Transforms():
		transforms, ok, why = false, true, essm.Refused(asked, "the kernel is too long for transforms")
	case asked == essm.FormFFT:
		transforms, ok, why = true, true, "requested"
	case asked == essm.FormDirect:
		transforms, ok, why = false, true, "requested"
	case asked == essm.FormScan && !math.IsInf(other, 1):
		transforms, ok, why = false, false, "requested"
	case asked == essm.FormScan, asked == essm.FormChunked && math.IsInf(other, 1):
		why = essm.Refused(asked, essm.Recurrence{Given: true}.Against(asked))
	case asked == essm.FormChunked:
		transforms, ok, why = false, false, essm.Refused(asked, "there is no chunked form here; a scan is the nearest")
	}
	pick := essm.FormScan
	if ok && transforms {
		pick = essm.FormFFT
	} else if ok {
		pick = essm.FormDirect
	}
	var chosen device.Form
	var not []device.Form
	for _, f := range []struct {
		name string
		time float64
	}{{essm.FormScan, other}, {essm.FormFFT, fast}, {essm.FormDirect, direct}} {
		if math.IsInf(f.time, 1) && f.name != pick { // the form does not exist
			continue
		}
		text := ""
		if f.name == essm.FormFFT {
			n, levels := c.Points()
			text = fmt.Sprintf("transforms of %d points in %s", n, map[bool]string{false: "one level", true: "two levels"}[levels > 1])
		}
		if f.name == pick {
			if text != "" {
				why += "; " + text
			}
			chosen = device.Form{Name: f.name, Why: why}
			continue
		}
		least := map[string]float64{essm.FormScan: other, essm.FormFFT: fast, essm.FormDirect: direct}[pick]
		if text != "" {
			text += "; "
		}
		not = append(not, device.Form{Name: f.name, Why: text + ratio(f.time, least)})
	}
	chosen.Not = not
	b.Form(chosen)
	return transforms, ok
}

// ratio compares the estimated times of two forms.
func ratio(time, chosen float64) string {
	switch {
	case time >= math.MaxFloat64:
		return "step by step, one after the other"
	case time <= 0 || chosen >= math.MaxFloat64:
		return "less time by estimate"
	case chosen <= 0:
		return "more time by estimate"
	default:
		return fmt.Sprintf("%.1f times the time by estimate", time/chosen)
	}
}
