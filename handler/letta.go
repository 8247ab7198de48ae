// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import (
	"sync"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/upstream"
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
