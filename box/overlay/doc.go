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

// Package overlay keeps the prefix of a box's prompts as it is. A box that runs a
// model has what it has read in its memory, token by token, and has to read
// again everything behind the first token that differs. So the system text and
// the tools that a conversation began with are sent in the same bytes until
// everything changes anyway (an epoch), and what clients change there travels
// as a note near the end.
//
// It works on requests as they go upstream, in the format that the upstream
// speaks. Whatever it is unsure of it leaves as it came.
package overlay
