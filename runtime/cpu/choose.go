package cpu

import "github.com/essmc/essmc/ops/essm"

// choose picks the form of a core.
func choose(want string, s *step, c core, batch, length, tile int) choice {
	return choice{Node: s.src.String(), Op: s.src.Op.FullName(), Form: essm.FormScan}
}
