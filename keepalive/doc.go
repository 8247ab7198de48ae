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

// Package keepalive decides which idle conversations are worth a request that
// does nothing but keep their cache at the provider alive, and when to send it.
//
// It sends nothing itself and has no clock: a [Schedule] learns of requests
// that begin and end, and says at a moment which pings are due. Whether one is
// worth its price follows from the [Chance] that the client comes back before
// the next one, by [Plan]; a [Budget] bounds what all of them cost. All sizes
// are tokens, all costs are in units of one uncached input token unless named
// otherwise.
package keepalive
