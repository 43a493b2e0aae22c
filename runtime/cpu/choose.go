package cpu

import "github.com/essmc/essmc/ops/essm"

// choose picks the form of a core.
func choose(want string, s *step, c core, batch, length, tile int) choice {
	form := essm.FormScan
	if want != "" && !c.info().unstable {
		form = want
	}
	if c.info().stateless && want != essm.FormFFT {
		form = essm.FormDirect
	}
	return choice{Node: s.src.String(), Op: s.src.Op.FullName(), Form: form}
}
