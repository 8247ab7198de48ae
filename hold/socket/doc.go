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

// Package socket carries requests of the Responses API to the upstream over WebSockets,
// for clients that POST them.
//
// Behind a conversation's first request a connection stays open. What its last answer was
// given to lives there, so that the next request is what is new and that answer's id. A
// connection answers one request at a time, and belongs to one conversation of one tenant:
// two requests at once go over two, or as POST.
//
// The handshake goes the way that the POST would have gone, through whatever stands behind
// the handler. So the operator's transport, header rules and choice of upstreams are in
// force, and nothing has to be said twice.
package socket
