package config

import (
	"fmt"
	"strings"
)

// hubKeys are the keys that any config.json of a model hub may have: those of the base class of configurations in the
// library transformers, in its versions 4 and 5, and those that its tools add. They do not change a model's outputs:
// they name the file's origin and its types, or control training, text generation and the form of Python's results.
var hubKeys = wordSet(`
	_name_or_path name_or_path _commit_hash transformers_version architectures auto_map custom_pipelines model_type
	torch_dtype dtype _pre_quantization_dtype torchscript torch_compile use_bfloat16 xla_device tf_legacy_loss
	_attn_implementation attn_implementation _attn_implementation_autoset _attn_implementation_internal
	_experts_implementation experts_implementation _experts_implementation_internal _flash_attn_2_enabled
	_from_model_config has_no_defaults_at_init keys_to_ignore_at_inference base_model_tp_plan base_model_pp_plan
	base_model_fsdp_plan base_model_ep_plan _auto_class adapters unsloth_version unsloth_fixed transformers.js_config

	id2label label2id num_labels problem_type finetuning_task task_specific_params tokenizer_class loss_type
	classifier_dropout

	return_dict use_return_dict output_hidden_states output_attentions _output_attentions output_past
	tie_last_hidden_states chunk_size_feed_forward gradient_checkpointing tie_encoder_decoder
	cross_attention_hidden_size is_decoder prefix pad_token_id bos_token_id eos_token_id sep_token_id
	decoder_start_token_id cls_token_id mask_token_id unk_token_id

	use_cache cache_implementation cache_config max_length max_new_tokens min_length min_new_tokens do_sample
	early_stopping num_beams num_beam_groups
	diversity_penalty temperature top_k top_p min_p top_h typical_p epsilon_cutoff eta_cutoff repetition_penalty
	encoder_repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
	force_words_ids renormalize_logits constraints guidance_scale penalty_alpha num_return_sequences output_scores
	output_logits return_dict_in_generate forced_bos_token_id forced_eos_token_id remove_invalid_values
	exponential_decay_length_penalty suppress_tokens begin_suppress_tokens forced_decoder_ids sequence_bias
	num_assistant_tokens num_assistant_tokens_schedule assistant_confidence_threshold assistant_early_exit
	assistant_lookbehind target_lookbehind prompt_lookup_num_tokens max_matching_ngram_size stop_strings max_time
	token_healing low_memory generation_config`)

// hubRefused are keys of any config.json of a model hub that change the model, with the reason why they are refused.
// They are accepted where they are off: null, false, 0, or empty.
var hubRefused = map[string]string{
	"quantization_config": "the weights are quantized, and essmc reads float32, float16 and bfloat16; " +
		"use the model's unquantized directory, or export it to ONNX",
	"per_layer_config":    "layers with settings of their own are not supported",
	"pruned_heads":        "pruned attention heads are not supported",
	"add_cross_attention": "cross-attention is not supported",
	"is_encoder_decoder":  "models of an encoder and a decoder are not supported; export the model to ONNX",
}

func wordSet(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

// hubKey reports whether a key at the top of a configuration is one that any model of a hub may have, and whether its
// value is allowed.
func hubKey(key string, v *Value) (known bool, err error) {
	if why := hubRefused[key]; why != "" {
		if v.off() {
			return true, nil
		}
		return true, fmt.Errorf("%s: expected null, found %s: %s", key, v.Describe(), why)
	}
	return hubKeys[key], nil
}

// off reports whether the value is null, false, 0 or empty.
func (v *Value) off() bool {
	switch v.Kind {
	case Null:
		return true
	case Object:
		return len(v.Members) == 0
	case List:
		return len(v.Items) == 0
	case String:
		return v.Text == ""
	}
	return v.Text == "false" || v.Text == "0"
}
