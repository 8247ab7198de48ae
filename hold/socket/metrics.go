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

package socket

import "github.com/caddy-llm-cache/caddy-llm-cache/metric"

var (
	connections = metric.Gauge("hold_connections", "WebSockets to upstreams that are open.")
	dialed      = metric.Counter("hold_connections_total", "WebSockets to upstreams that have been opened.")
	fellBack    = metric.CounterOf("hold_posts_total", "Requests that were to go over a WebSocket and went as POST, by cause.", "cause", full, unreached, cut)
)

// Why a request goes as POST.
const (
	full      = "full"      // there are as many connections as there may be, all of them busy
	unreached = "unreached" // there was no answer to one
	cut       = "cut"       // the connection broke off before there was an answer
)
