// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"encoding/json"
	"errors"
	"fmt"
)

// config is a model's config.json.
type config struct {
	Family       Family  `json:"model_type"`
	Hidden       int     `json:"hidden_size"`
	Intermediate int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	Positions    int     `json:"max_position_embeddings"`
	Pad          *int32  `json:"pad_token_id"`
	Epsilon      float64 `json:"layer_norm_eps"`
	Activation   string  `json:"hidden_act"`
	PositionType string  `json:"position_embedding_type"`
	Embedding    int     `json:"embedding_size"`
}

func parseConfig(b []byte) (config, error) {
	c := config{Epsilon: 1e-12, Activation: "gelu", PositionType: "absolute"}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, err
	}
	return c, c.check()
}

func (c config) check() error {
	switch {
	case c.Family != BERT && c.Family != XLMRoberta:
		return fmt.Errorf("model_type %q: bert and xlm-roberta are understood", c.Family)
	case c.Activation != "gelu":
		return fmt.Errorf("hidden_act %q: gelu is understood", c.Activation)
	case c.PositionType != "absolute":
		return fmt.Errorf("position_embedding_type %q: absolute is understood", c.PositionType)
	case c.Embedding != 0 && c.Embedding != c.Hidden:
		return errors.New("embedding_size differs from hidden_size")
	}
	for name, v := range map[string]int{
		"hidden_size": c.Hidden, "intermediate_size": c.Intermediate, "num_hidden_layers": c.Layers,
		"num_attention_heads": c.Heads, "max_position_embeddings": c.Positions,
	} {
		if v <= 0 || v > 1<<16 {
			return fmt.Errorf("%s: %d is out of range", name, v)
		}
	}
	if c.Hidden%c.Heads != 0 {
		return fmt.Errorf("hidden_size %d is no multiple of %d heads", c.Hidden, c.Heads)
	}
	if c.Positions < c.firstPosition()+window {
		return fmt.Errorf("max_position_embeddings: %d are too few for %d tokens", c.Positions, window)
	}
	return nil
}

// firstPosition is the position of the first token. XLM-RoBERTa counts from the id of its padding
// plus one.
func (c config) firstPosition() int {
	if c.Family != XLMRoberta {
		return 0
	}
	return int(c.pad()) + 1
}

// prefix is the prefix of the encoder's tensor names.
func (c config) prefix() string {
	if c.Family == XLMRoberta {
		return "roberta."
	}
	return "bert."
}

func (c config) pad() int32 {
	switch {
	case c.Pad != nil && *c.Pad >= 0 && *c.Pad < 1<<15:
		return *c.Pad
	case c.Family == XLMRoberta:
		return 1
	}
	return 0
}
