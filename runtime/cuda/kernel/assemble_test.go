package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/ptxas"
)

// spilling names the kernels whose threads may keep registers in memory, with the reasons.
var spilling = map[string]string{}

// TestMain runs the tests, and assembles all kernels that they have made for all cards, where the environment names an
// assembler (ESSMC_PTXAS). A kernel that is refused fails the tests, and so does one that spills registers.
func TestMain(m *testing.M) {
	if os.Getenv(ptxas.Variable) == "" {
		os.Exit(m.Run())
	}
	var mu sync.Mutex
	of := map[string]*Code{} // by text
	made = func(c *Code) {
		mu.Lock()
		of[c.Text] = c
		mu.Unlock()
	}
	code := m.Run()
	made = nil
	if lines := assemble(of); code == 0 && len(lines) > 0 {
		fmt.Println(strings.Join(lines, "\n"))
		code = 1
	}
	os.Exit(code)
}

// assemble returns the faults of the codes.
func assemble(of map[string]*Code) (wrong []string) {
	a, err := ptxas.Find()
	if err != nil {
		return []string{err.Error()}
	}
	var texts []string
	for text := range of {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	most, spills := map[string]int{}, map[string]bool{}
	a.All(texts, ptxas.Archs, func(text, arch string, reports []ptxas.Report, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("kernel %s: %v", of[text].Name, err))
		}
		for _, r := range reports {
			most[arch] = max(most[arch], r.Registers)
			if spills[r.Kernel] = spills[r.Kernel] || r.Spills(); r.Spills() && spilling[r.Kernel] == "" {
				wrong = append(wrong, "kernel "+r.String())
			}
		}
	})
	slices.Sort(wrong)
	for _, arch := range ptxas.Archs {
		fmt.Printf("%s: %d kernels are assembled, of at most %d registers\n", arch, len(texts), most[arch])
	}
	return wrong
}
