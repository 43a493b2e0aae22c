package passes

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
	. "github.com/essmc/essmc/passes/match" //nolint:revive // patterns are written like the operators that they match
)

// Fuse joins the steps of a discrete system into one operator.
var Fuse = &Pass{
	Name: "fuse",
	Doc:  "B u, the scan, C x and D u → one SSM (diagonal) or DenseSSM (full matrix) with a direction.",
	After: []Reason{
		{"canonicalize", "patterns are written for canonical forms"},
	},
	Run: func(c *Context, g *ir.Graph) (int, error) {
		before := map[*ir.Node]bool{}
		for _, m := range g.Nodes {
			before[m] = true
		}
		n, err := Apply(c, g, fuseRules)
		for _, m := range g.Nodes {
			if !before[m] && (m.Op == essm.SSM || m.Op == essm.DenseSSM) {
				c.Note("%s: %s", where(m), describeSystem(m))
			}
		}
		return n, err
	},
}

// describeSystem returns a line about a fused node.
func describeSystem(n *ir.Node) string {
	s := n.In(1).Shape()
	return fmt.Sprintf("%s %s, channels × heads × states = %v × %v × %v", n.Op.Name,
		n.Attrs.Str("direction", essm.Forward), s[0], s[1], s[2])
}

// scanOf matches a diagonal scan over B u. Its output out is the root.
func scanOf(vIm Pattern, out int) *OpPattern {
	return Op("essm.Scan", Op("essm.HeadLinear", Var("u"), Var("B_re")), Var("a_re"), Var("a_im"), Var("b_re"),
		Var("b_im"), vIm, Var("state")).
		As("scan").Out(out)
}

var complexInput = Op("essm.HeadLinear", Var("u"), Var("B_im"))

var fuseRules = NewSet(
	&Rule{
		Name: "ssm-real", Doc: "C · Scan(B u) with real B and C",
		Pattern: Op("essm.HeadLinear", scanOf(Absent(), 0), Var("C_re")),
		Check:   realOnly,
		Make:    makeSSM,
		Also:    finalState("scan", 2),
	},
	&Rule{
		Name: "ssm-complex", Doc: "Re(C · Scan(B u)) with complex B and C, written out in real numbers",
		Pattern: Op("Sub", Op("essm.HeadLinear", scanOf(complexInput, 0), Var("C_re")),
			Op("essm.HeadLinear", scanOf(complexInput, 1), Var("C_im"))),
		Make: makeSSM,
		Also: finalState("scan", 2),
	},
	&Rule{
		Name: "dense-ssm", Doc: "C · DenseScan(B u)",
		Pattern: Op("essm.HeadLinear", Op("essm.DenseScan", Op("essm.HeadLinear", Var("u"), Var("B")), Var("abar"),
			Var("gamma"), Var("state")).As("scan"), Var("C")),
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			return system(b, m.Node("scan"), "DenseSSM", 1,
				[]*ir.Value{m.Val("u"), m.Val("abar"), m.Val("gamma"), m.Val("B"), m.Val("C"), nil, m.Val("state")})
		},
		Also: finalState("scan", 1),
	},
	direct("ssm-direct", "SSM", 9, "HeadScale"),
	direct("ssm-direct-full", "SSM", 9, "HeadLinear"),
	direct("dense-direct", "DenseSSM", 5, "HeadScale"),
	direct("dense-direct-full", "DenseSSM", 5, "HeadLinear"),
)

// realOnly refuses a scan whose imaginary part is used.
func realOnly(m *Match) string {
	if x := m.Node("scan").Out(1); x != nil && m.Uses(x) > 0 {
		return "the imaginary part of its states is also used"
	}
	return ""
}

// direct returns the rule that adds the direct term D to a fused system, as input at.
func direct(name, op string, at int, product string) *Rule {
	return &Rule{
		Name: name, Doc: op + " without D, plus D u",
		Pattern: Op("Add", anySystem("essm."+op).As("system"), Op("essm."+product, Var("u"), Var("D"))),
		Check: func(m *Match) string {
			n := m.Node("system")
			switch {
			case n.In(at) != nil || n.In(0) != m.Val("u"):
				return Leave
			case len(m.Val("D").Shape()) == 4 && !sameChannels(n, m.Val("D")):
				return "D has another number of features than the system"
			}
			return ""
		},
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			n := m.Node("system")
			in := append([]*ir.Value(nil), n.Inputs...)
			for len(in) <= at {
				in = append(in, nil)
			}
			in[at] = m.Val("D")
			return b.Ops("essm", op, len(n.Outputs), in, n.Attrs...)[:1]
		},
		Also: finalState("system", 1),
	}
}

// anySystem matches a fused system with any inputs.
func anySystem(op string) *OpPattern { return Op(op).AnyInputs() }

// sameChannels reports whether a full D (C, S, m, h) has the channels, heads and features of the input matrix.
func sameChannels(n *ir.Node, d *ir.Value) bool {
	at := 5
	if n.Op.Name == "DenseSSM" {
		at = 3
	}
	b, s := n.In(at).Shape(), d.Shape()
	return len(b) == 4 && b[0].Equal(s[0]) && b[1].Equal(s[1]) && b[3].Equal(s[3])
}

// makeSSM builds an SSM from the values that a match of scanOf bound.
func makeSSM(b *ir.Builder, m *Match) []*ir.Value {
	v := m.Val
	return system(b, m.Node("scan"), "SSM", 2, []*ir.Value{v("u"), v("a_re"), v("a_im"), v("b_re"), v("b_im"),
		v("B_re"), v("C_re"), v("B_im"), v("C_im"), nil, v("state")})
}

// system adds a fused node with the scan's attributes. It has a final state if the scan has output stateOut.
func system(b *ir.Builder, scan *ir.Node, op string, stateOut int, in []*ir.Value) []*ir.Value {
	outs := 1
	if scan.Out(stateOut) != nil {
		outs = 2
	}
	for len(in) > 0 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	made := b.Ops("essm", op, outs, in, scan.Attrs...)
	return made[:1]
}

// finalState replaces the scan's final state by the final state of the fused operator.
func finalState(node string, out int) func(m *Match, made []*ir.Value) map[*ir.Value]*ir.Value {
	return func(m *Match, made []*ir.Value) map[*ir.Value]*ir.Value {
		if old := m.Node(node).Out(out); old != nil {
			return map[*ir.Value]*ir.Value{old: made[0].Def.Outputs[1]}
		}
		return nil
	}
}
