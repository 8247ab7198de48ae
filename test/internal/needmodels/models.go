// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package needmodels provides need models for out-of-fold figures: no model was fitted on the
// conversations that it is used for.
package needmodels

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Models are need models that were each fitted without the conversations of some repository owners.
type Models struct {
	// Fold maps each owner to the index of the model fitted without the owner.
	Fold map[string]int `json:"fold"`
	// Models are the models.
	Models []*pipeline.NeedModel `json:"models"`
}

// Read reads models from a file written by go run ./lab/fit.
func Read(path string) (*Models, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	m := new(Models)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("models: %s: %w", path, err)
	}
	return m, nil
}

// For returns the model fitted without a conversation's owner.
func (m *Models) For(c *recording.Conversation) (*pipeline.NeedModel, error) {
	k, ok := m.Fold[c.Owner()]
	if !ok || k < 0 || k >= len(m.Models) {
		return nil, fmt.Errorf("models: none was fitted without %q", c.Owner())
	}
	return m.Models[k], nil
}
