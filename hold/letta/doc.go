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

// Package letta is for agents of Letta, which keep their conversations themselves and
// read no more of a request than the last message of the user.
//
// What stands behind is the App Server, which stores responses and forks from them: a
// request carries what is new and the id of the answer that it goes on from, and all of it
// where the server does not know that answer.
//
// What an agent would pass over in silence is refused: tools of the client, their calls
// and results, media besides images.
package letta
