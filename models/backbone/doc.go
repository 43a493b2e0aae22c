// Package backbone is the frame that families of state-spaces/s4 share: an encoder, residual blocks around layers, and
// a decoder. A family gives it the kinds of its layers (Layer), and registers a configuration of this package.
//
//	x = encoder(input)
//	block i, prenorm:   x = x + layer(norm(x)); after the last one, x = norm(x)
//	block i, postnorm:  x = norm(x + layer(x))
//	output = decoder(x)
//
// It imports ir, ir/tensor, ops/std, ops/essm (which Build uses), models and models/config. Keys of the configuration
// and names of tensors are those of that repository, version 4.
package backbone
