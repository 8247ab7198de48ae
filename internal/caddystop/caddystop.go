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

// Package caddystop stops the Caddy of a test.
package caddystop

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/app"
)

// Stop stops Caddy, and waits for requests that its grace period did not: a configuration
// that is loaded while they run would go on with their sessions.
func Stop(t testing.TB) {
	t.Helper()
	open := app.Open()
	if err := caddy.Stop(); err != nil {
		t.Error(err)
	}
	end := time.Now().Add(5 * time.Second)
	for _, s := range open {
		for s.Pin() {
			_ = s.Unpin()
			if time.Now().After(end) {
				t.Log("a request goes on after its Caddy")
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
}
