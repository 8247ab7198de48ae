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

// Package hold knows what an upstream holds of a conversation, so that a request need
// carry no more than what is new.
//
// An [Engine] keeps, for each growing conversation and upstream, the handle by which the
// upstream knows what it holds, what exactly that is, and until when. For each request
// it decides: whole, or the difference (a delta). How that is written, and what answers
// mean, a [Driver] knows. What an upstream turns out not to hold is sent whole, once, and
// the client never notices: package relay sees to that.
//
// A delta stands for the whole, and never for anything else. What has been forwarded
// before, with the answer as it was given, must be what the request begins with, and all
// that a handle is bound to must be equal; a driver that sends bytes has them checked at
// the other end.
package hold
