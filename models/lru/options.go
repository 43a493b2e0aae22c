package lru

import (
	"fmt"
	"strconv"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
	"github.com/essmc/essmc/models/flax"
)

// complete completes the options of the released code's command line by the tensors: the decoder computes d_output
// logits for each of multidim groups.
func complete(v *config.Value, w models.Weights) (notes []string, err error) {
	o, err := flax.Complete(v, w)
	if err != nil {
		return nil, err
	}
	groups := 1
	if g := o.Get("multidim"); g != nil {
		if groups, err = strconv.Atoi(g.Text); err != nil || groups < 1 || o.Outputs%groups != 0 {
			return nil, fmt.Errorf("multidim: expected a divisor of the %d outputs of tensor %s.kernel, found %s",
				o.Outputs, o.Decoder, config.Shorten(g.Text))
		}
	}
	o.SetInt("d_output", o.Outputs/groups)
	return nil, nil
}
