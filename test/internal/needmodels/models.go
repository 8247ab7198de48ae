// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package needmodels has need models for figures out of fold: each was fitted without the
// conversations that it is used for.
package needmodels

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Models are need models that were each fitted without the conversations of some
// owners of repositories.
type Models struct {
	// Fold says which of the models was fitted without an owner.
	Fold map[string]int `json:"fold"`
	// Models are those.
	Models []*pipeline.NeedModel `json:"models"`
}

// Read reads them from a file that go run ./lab/fit has written.
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

// For returns the model that knows nothing of a conversation's owner.
func (m *Models) For(c *recording.Conversation) (*pipeline.NeedModel, error) {
	k, ok := m.Fold[c.Owner()]
	if !ok || k < 0 || k >= len(m.Models) {
		return nil, fmt.Errorf("models: none was fitted without %q", c.Owner())
	}
	return m.Models[k], nil
}
