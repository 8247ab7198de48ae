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

// Package websocket answers clients that speak the Responses API over a WebSocket.
//
// Such a client says response.create where others POST, and from the second turn on it
// sends what is new, and the id of the answer that it goes on from. What that answer was
// given to lives with the connection and nowhere else. A [Server] keeps it, and makes
// each response.create the POST of a whole conversation: whatever answers those, by
// events or not, needs to know nothing of sockets, and sees all of the history.
//
// A connection has lanes (stream_id). Requests of one lane are answered one after the
// other, those of several at once.
package websocket
