package s5

import (
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
	"github.com/essmc/essmc/models/flax"
)

// paddedSets are the data sets whose sequences the released code pads.
var paddedSets = []string{"imdb-classification", "listops-classification", "aan-classification"}

// complete completes the options of the released code's command line by the tensors and the data set.
func complete(v *config.Value, w models.Weights) (notes []string, err error) {
	o, err := flax.Complete(v, w)
	if err != nil {
		return nil, err
	}
	o.SetInt("d_output", o.Outputs)
	o.SetBool("retrieval", o.Retrieval)
	if o.Get("padded") == nil {
		padded := false
		if d := o.Get("dataset"); d != nil {
			padded = slices.ContainsFunc(paddedSets, func(name string) bool { return strings.HasSuffix(d.Text, name) })
		}
		o.SetBool("padded", padded)
		notes = append(notes, fmt.Sprintf("padded: %v, which follows from the data set", padded))
	}
	for _, key := range []string{"activation_fn", "conj_sym", "discretization", "mode", "prenorm", "clip_eigs",
		"bidirectional", "batchnorm", "blocks"} {
		if o.Get(key) == nil {
			notes = append(notes, key+": is not among the options; the default is used")
		}
	}
	return notes, nil
}
