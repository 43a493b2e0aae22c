package samples

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// i64s returns an attribute that is a list of integers.
func i64s(name string, v ...int64) ir.Attr { return ir.A(name, v) }

func floats32(v ...float32) tensor.Datum { return tensor.FromSlice(v, len(v)) }

// visionSamples returns samples for pooling, convolutions and resampling.
func visionSamples(o *ir.Op) []opstest.Sample {
	k := func(v ...int64) ir.Attr { return i64s("kernel_shape", v...) }
	switch o.Name {
	case "AveragePool", "LpPool", "MaxPool":
		out := []opstest.Sample{of(normal(2, 3, 7)).With(k(3)), of(normal(2, 2, 8)).With(k(2), i64s("strides", 2)),
			of(normal(1, 2, 9)).With(k(3), i64s("pads", 2, 0)),
			of(normal(1, 2, 6, 5)).With(k(3, 2), i64s("strides", 2, 1), i64s("pads", 1, 0, 1, 1), ir.A("ceil_mode", 1),
				i64s("dilations", 1, 2)),
			of(normal(1, 2, 7)).With(k(3), ir.A("auto_pad", "SAME_LOWER")),
			of(normal(1, 2, 8)).With(k(3), i64s("strides", 2), ir.A("auto_pad", "SAME_UPPER"))}
		switch o.Name {
		case "AveragePool":
			out = append(out, of(normal(1, 2, 7)).With(k(3), i64s("pads", 1, 1), i64s("strides", 2),
				ir.A("ceil_mode", 1), ir.A("count_include_pad", 1)))
		case "MaxPool":
			out = append(out, of(normal(2, 2, 6, 4)).With(k(2, 2), ir.A("storage_order", 1)).Gives(2),
				of(whole(tensor.Uint8, 0, 9, 1, 1, 5)).With(k(2)).Gives(2))
		case "LpPool":
			p := ir.A("p", 3)
			if o.Since == 1 {
				p = ir.A("p", 1.5)
			}
			out = append(out, of(normal(2, 3, 7)).With(k(2), p))
		}
		return out
	case "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool":
		return []opstest.Sample{of(normal(2, 3, 5)), of(normal(1, 2, 3, 4))}
	case "MaxUnpool":
		at := tensor.FromSlice([]int64{1, 3, 4, 7, 8, 11, 13, 15}, 1, 2, 4)
		return []opstest.Sample{of(normal(1, 2, 4), at).With(k(2), i64s("strides", 2)),
			of(normal(1, 2, 4), at, vec(1, 2, 9)).With(k(2), i64s("strides", 2)).Fixed(2),
			of(normal(1, 2, 4), at, vec(1, 2, 9)).With(k(2), i64s("strides", 2))}
	case "MaxRoiPool":
		return []opstest.Sample{of(normal(2, 3, 6, 5),
			tensor.FromSlice([]float32{0, 0, 0, 4, 5, 1, 1, 2, 3, 3}, 2, 5)).With(i64s("pooled_shape", 2, 2),
			ir.A("spatial_scale", 1.0))}
	case "RoiAlign":
		rois := tensor.FromSlice([]float32{0, 0, 4, 5, 1, 2, 3, 3}, 2, 4)
		return []opstest.Sample{of(normal(2, 3, 6, 5), rois, vec(0, 1)).With(ir.A("output_height", 2),
			ir.A("output_width", 3)),
			of(normal(2, 3, 6, 5), rois, vec(1, 1)).With(ir.A("mode", "max"), ir.A("sampling_ratio", 2),
				ir.A("spatial_scale", 0.5))}
	case "ConvTranspose":
		return []opstest.Sample{of(normal(2, 3, 7), normal(3, 4, 3), normal(4)),
			of(normal(1, 4, 5), normal(4, 2, 3)).With(ir.A("group", 2), i64s("strides", 2), i64s("pads", 1, 0),
				i64s("output_padding", 1)),
			of(normal(1, 2, 4, 3), normal(2, 2, 3, 2)).With(i64s("dilations", 2, 1), i64s("pads", 0, 1, 2, 0)),
			of(normal(1, 2, 5), normal(2, 1, 3)).With(i64s("strides", 2), ir.A("auto_pad", "SAME_UPPER")),
			of(normal(1, 2, 5), normal(2, 1, 3)).With(i64s("strides", 3), i64s("output_shape", 14))}
	case "DeformConv":
		return []opstest.Sample{of(normal(1, 2, 5, 4), normal(3, 2, 2, 2), normal(1, 8, 4, 3), normal(3),
			normal(1, 4, 4, 3)),
			of(normal(2, 4, 6), normal(2, 2, 3), normal(2, 6, 6)).With(ir.A("group", 2), ir.A("offset_group", 2),
				i64s("pads", 1, 1))}
	case "Col2Im":
		return []opstest.Sample{of(normal(2, 12, 12), vec(5, 5), vec(2, 3)).Fixed(1, 2),
			of(normal(1, 6, 4), vec(7), vec(3)).With(i64s("dilations", 2), i64s("pads", 0, 1)),
			of(normal(2, 4, 3), vec(6), vec(2)).With(i64s("strides", 2))}
	case "DepthToSpace":
		return []opstest.Sample{of(normal(2, 8, 2, 3)).With(ir.A("blocksize", 2)),
			of(normal(1, 8, 2, 3)).With(ir.A("blocksize", 2), ir.A("mode", "CRD")),
			of(whole(tensor.Int8, 0, 9, 1, 4, 2, 2)).With(ir.A("blocksize", 2))}
	case "SpaceToDepth":
		return []opstest.Sample{of(normal(2, 3, 4, 6)).With(ir.A("blocksize", 2))}
	case "GridSample":
		out := []opstest.Sample{of(normal(2, 3, 5, 4), inside(-1.2, 1.2, 2, 3, 7, 2))}
		mode := func(m, padding string, corners int) []ir.Attr {
			if o.Since == 16 && m == "cubic" {
				m = "bicubic"
			}
			return []ir.Attr{ir.A("mode", m), ir.A("padding_mode", padding), ir.A("align_corners", corners)}
		}
		return append(out, of(normal(1, 2, 5, 4), inside(-1.5, 1.5, 1, 3, 2, 2)).With(mode("cubic", "border", 1)...),
			of(normal(1, 2, 5, 4), inside(-3, 3, 1, 3, 2, 2)).With(mode("cubic", "reflection", 0)...),
			of(normal(1, 2, 5, 4, 3), inside(-1.5, 1.5, 1, 3, 2, 2, 3)).With(mode("nearest", "reflection", 1)...))
	case "AffineGrid":
		return []opstest.Sample{of(normal(2, 2, 3), vec(2, 3, 4, 5)).Fixed(1),
			of(normal(1, 3, 4), vec(1, 3, 2, 4, 1)).With(ir.A("align_corners", 1))}
	case "CenterCropPad":
		return []opstest.Sample{of(normal(7, 4, 3), vec(4, 7, 3)).Fixed(1),
			of(normal(2, 5, 3), vec(8)).With(i64s("axes", -2)),
			of(whole(tensor.Int4, 0, 5, 5, 4), vec(2)).With(i64s("axes", 0))}
	case "Resize":
		if o.Since == 10 {
			return []opstest.Sample{of(normal(5, 4), floats32(0.6, 2)).Fixed(1),
				of(normal(4, 6), floats32(2, 1.5)).With(ir.A("mode", "linear"))}
		}
		mode := func(m string, more ...ir.Attr) []ir.Attr { return append(more, ir.A("mode", m)) }
		coords := func(m string) ir.Attr { return ir.A("coordinate_transformation_mode", m) }
		scales, sizes := floats32(0.6, 2), vec(2, 3, 7)
		return []opstest.Sample{of(normal(5, 4), nil, scales).Fixed(2), of(normal(5, 4), nil, scales),
			of(normal(2, 5, 4), nil, nil, sizes).Fixed(3).With(mode("linear")...),
			of(normal(2, 5, 4), nil, nil, sizes).With(mode("cubic", coords("align_corners"))...),
			of(normal(5, 4), nil, scales).With(mode("cubic", ir.A("antialias", 1), coords("half_pixel_symmetric"))...),
			of(normal(2, 8, 4), nil, nil, vec(3, 2)).With(mode("linear", ir.A("antialias", 1), i64s("axes", 1, 2),
				coords("pytorch_half_pixel"), ir.A("exclude_outside", 1))...),
			of(normal(2, 5, 4), floats32(0.2, 0.4, 0.6, 1.2), nil,
				vec(3, 3)).With(mode("linear", i64s("axes", -2, -1), coords("tf_crop_and_resize"),
				ir.A("extrapolation_value", 9.0))...),
			of(normal(2, 5, 4), floats32(0.2, 0.4, 0.6, 1.2), nil,
				vec(3, 3)).With(mode("nearest", i64s("axes", -2, -1), coords("tf_crop_and_resize"))...),
			of(whole(tensor.Int8, -9, 9, 2, 5, 4), nil, nil,
				vec(7, 9)).With(mode("nearest", i64s("axes", 1, 2), ir.A("keep_aspect_ratio_policy", "not_larger"),
				coords("asymmetric"), ir.A("nearest_mode", "ceil"))...),
			of(normal(2, 5, 4), nil, nil, vec(7, 9)).With(mode("cubic", i64s("axes", 1, 2),
				ir.A("keep_aspect_ratio_policy", "not_smaller"), ir.A("nearest_mode", "round_prefer_ceil"))...)}
	case "Upsample":
		switch o.Since {
		case 9:
			return []opstest.Sample{of(normal(5, 4), floats32(2, 1.5)).Fixed(1),
				of(normal(4, 6), floats32(2, 1)).With(ir.A("mode", "linear"))}
		case 7:
			return []opstest.Sample{of(normal(2, 5, 4)).With(ir.A("scales", []float64{1, 2, 1.5}))}
		}
		return []opstest.Sample{of(normal(1, 2, 5, 4)).With(ir.A("height_scale", 2.0), ir.A("width_scale", 1.5)),
			of(normal(1, 2, 5, 4)).With(ir.A("height_scale", 2.0), ir.A("width_scale", 1.0), ir.A("mode", "bilinear"))}
	}
	return nil
}
