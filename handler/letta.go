// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"sync"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
)

// agentKey makes the names by which agents of Letta are found again.
var agentKey = sync.OnceValues(func() (*tenant.Key, error) { return app.LastingKey("agents") })

// agentNames returns it where an upstream has agents, nil elsewhere.
func agentNames(up *upstream.Profile) *tenant.Key {
	if up.Upstream == nil || up.Agents == nil {
		return nil
	}
	key, err := agentKey()
	if err != nil {
		up.Log.Warn("agents of Letta are not found again after a restart", zap.Error(err))
	}
	return key
}
