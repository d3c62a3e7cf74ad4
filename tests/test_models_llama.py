"""GGUF to ONNX, and the conversation memory on top, against a forward pass in numpy from the papers' formulas."""

import gguf
import numpy as np
import onnx
import pytest
from gguf import GGMLQuantizationType as Kind

from voxpath import models
from voxpath.engines import ort
from voxpath.engines.cancel import Cancel, Cancelled
from voxpath.errors import ModelError
from voxpath.models import fetch, llama
from voxpath.models.blocks import in_two_parts, multiply, round_to_eight_bits
from voxpath.models.graph import Graph

LAYERS, WIDTH, HEADS, KV_HEADS, INNER, CONTEXT, BASE, EPSILON = 2, 64, 4, 2, 96, 1024, 5000.0, 1e-5
HEAD = WIDTH // HEADS
BYTES = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256))]
BYTES += [chr(256 + i) for i in range(256 - len(BYTES))]  # GPT-2's stand-ins for the other bytes
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w"]
TOKENS = ["<|im_start|>", "<|im_end|>", *BYTES, *(merge.replace(" ", "") for merge in MERGES)]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def weights(seed=0):
    """Random tensors of a tiny Llama by their GGUF names, [outputs, inputs]."""
    rng = np.random.default_rng(seed)
    made = {
        "token_embd.weight": rng.standard_normal((len(TOKENS), WIDTH)),
        "output_norm.weight": rng.random(WIDTH) + 0.5,
    }
    for layer in range(LAYERS):
        for name, outputs, inputs in (
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", KV_HEADS * HEAD, WIDTH),
            ("attn_v", KV_HEADS * HEAD, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", INNER, WIDTH),
            ("ffn_up", INNER, WIDTH),
            ("ffn_down", WIDTH, INNER),
        ):
            # With a mean other than zero, so that the blocks' minima matter.
            made[f"blk.{layer}.{name}.weight"] = rng.standard_normal((outputs, inputs)) * 0.2 + 0.02
        for name in ("attn_norm", "ffn_norm"):
            made[f"blk.{layer}.{name}.weight"] = rng.random(WIDTH) + 0.5
    return {name: value.astype(np.float32) for name, value in made.items()}


def write(path, kind, **changes):
    """A GGUF file with the matrices stored as `kind`. Returns the weights as any reader would make them floats."""
    writer = gguf.GGUFWriter(path, changes.get("architecture", "llama"))
    writer.add_name("Tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(BASE)
    writer.add_layer_norm_rms_eps(EPSILON)
    if "scaling" in changes:
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    if "parts" in changes:
        writer.add_uint16("split.count", changes["parts"])
    if changes.get("tokenizer", "gpt2"):
        writer.add_tokenizer_model(changes.get("tokenizer", "gpt2"))
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, *[1] * (len(TOKENS) - 2)])
    if changes.get("merges", MERGES):
        writer.add_token_merges(MERGES)
    writer.add_eos_token_id(1)
    writer.add_chat_template(changes.get("template", TEMPLATE))
    read = {}
    tensors = weights()
    tensors.pop(changes.get("without"), None)
    if "extra" in changes:
        tensors[changes["extra"]] = np.ones(WIDTH, np.float32)
    for name, value in tensors.items():
        stored = Kind.F32 if value.ndim == 1 else changes.get(name, kind)
        data = gguf.quantize(value, stored)
        read[name] = gguf.dequantize(data, stored).astype(np.float32)
        writer.add_tensor(name, data, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read


def forward(w, tokens):
    """Logits [n, vocabulary] by the definition: pre-norm blocks, rotary pairs (2i, 2i + 1), grouped queries, SwiGLU."""

    def norm(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON) * w[name]

    def rotate(x):  # [n, heads, head] as complex numbers
        angle = np.arange(len(x))[:, None] * BASE ** -(np.arange(0, HEAD, 2) / HEAD)
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)[:, None]
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)

    x = w["token_embd.weight"][tokens].astype(np.float64)
    n = len(tokens)
    for layer in range(LAYERS):
        b = f"blk.{layer}."
        y = norm(x, b + "attn_norm.weight")
        q, k, v = ((y @ w[f"{b}attn_{c}.weight"].T).reshape(n, -1, HEAD) for c in "qkv")
        q, k = rotate(q), rotate(k)
        mixed = np.zeros((n, HEADS, HEAD))
        for head in range(HEADS):
            group = head // (HEADS // KV_HEADS)
            for row in range(n):
                scores = np.exp(q[row, head] @ k[: row + 1, group].T / np.sqrt(HEAD))
                mixed[row, head] = scores / scores.sum() @ v[: row + 1, group]
        x = x + mixed.reshape(n, -1) @ w[b + "attn_output.weight"].T
        y = norm(x, b + "ffn_norm.weight")
        gate = y @ w[b + "ffn_gate.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w[b + "ffn_up.weight"].T)) @ w[b + "ffn_down.weight"].T
    return norm(x, "output_norm.weight") @ w["token_embd.weight"].T


def log_probabilities(w, tokens):
    logits = forward(w, tokens)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def export(folder, kind, form=None, **changes):
    folder.mkdir(exist_ok=True)
    read = write(folder / "tiny.gguf", kind, **changes)
    llama.export(folder / "tiny.gguf", folder, form=form)
    return read, ort.language(folder)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Weights and the exactly exported model."""
    return export(tmp_path_factory.mktemp("tiny") / "f32", Kind.F32, form=llama.EXACT)


TEXT = [5, 200, 17, 42, 42, 99, 3, 150, 7, 11, 260, 61]


def test_the_exact_export_computes_what_the_formulas_say(tiny):
    w, language = tiny
    context = language.open()
    context.extend(TEXT[:1])
    expected = log_probabilities(w, TEXT)[np.arange(len(TEXT) - 1), TEXT[1:]]
    np.testing.assert_allclose(context.score(TEXT[1:]), expected, atol=2e-4)


FINE = llama.in_blocks(lambda name: True)
ROUGH = llama.in_blocks(lambda name: False)
STORED = [Kind.Q4_0, Kind.Q4_1, Kind.Q8_0]


@pytest.mark.parametrize("kind", [*STORED, Kind.F16, Kind.Q5_1], ids=lambda kind: kind.name)
def test_blocks_keep_the_stored_weights_and_fine_activations_nearly_all_their_bits(kind, tmp_path):
    w, language = export(tmp_path / kind.name, kind, FINE, **{"token_embd.weight": Kind.Q8_0})
    context = language.open()
    context.extend(TEXT[:1])
    expected = log_probabilities(w, TEXT)[np.arange(len(TEXT) - 1), TEXT[1:]]
    error = np.abs(context.score(TEXT[1:]) - expected)
    # 8-bit activations alone would leave 1 to 3 % of noise; 16 bits leave a hundredth of that. Weights that no block
    # holds exactly are rounded to 8 bits.
    spread = forward(w, TEXT).std()
    assert error.mean() < (5e-4 if kind in STORED else 0.02) * spread


def test_matrices_that_are_multiplied_together_may_be_stored_in_different_ways(tmp_path):
    mixed = {f"blk.{layer}.{name}.weight": Kind.Q8_0 for layer in range(LAYERS) for name in ("attn_v", "ffn_up")}
    w, language = export(tmp_path / "mixed", Kind.Q4_1, FINE, **mixed, **{"token_embd.weight": Kind.Q8_0})
    context = language.open()
    context.extend(TEXT[:1])
    expected = log_probabilities(w, TEXT)[np.arange(len(TEXT) - 1), TEXT[1:]]
    assert np.abs(context.score(TEXT[1:]) - expected).mean() < 5e-4 * forward(w, TEXT).std()


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1], ids=lambda kind: kind.name)
def test_an_embedding_of_four_bits_can_be_the_head_as_well(kind, tmp_path):
    w, language = export(tmp_path / "tied", kind, FINE)
    context = language.open()
    context.extend(TEXT[:1])
    expected = log_probabilities(w, TEXT)[np.arange(len(TEXT) - 1), TEXT[1:]]
    assert np.abs(context.score(TEXT[1:]) - expected).mean() < 0.02 * forward(w, TEXT).std()


def test_the_default_is_near_the_formulas_and_fine_at_a_layer_s_start_and_the_head(tmp_path):
    w, language = export(tmp_path / "default", Kind.Q4_1, **{"token_embd.weight": Kind.Q8_0})
    context = language.open()
    context.extend(TEXT[:1])
    expected = log_probabilities(w, TEXT)[np.arange(len(TEXT) - 1), TEXT[1:]]
    assert np.abs(context.score(TEXT[1:]) - expected).mean() < 0.04 * forward(w, TEXT).std()
    nodes = onnx.load(tmp_path / "default" / "model.onnx", load_external_data=False).graph.node
    assert sum(node.op_type == "Round" for node in nodes) == LAYERS + 1


@pytest.mark.parametrize(
    ("name", "sensitive"),
    [
        ("blk.7.attn_q.weight", True),
        ("blk.7.attn_k.weight", True),
        ("blk.7.attn_v.weight", True),
        ("blk.7.attn_output.weight", False),
        ("blk.7.ffn_gate.weight", False),
        ("output.weight", True),
        ("token_embd.weight", True),
    ],
)
def test_attention_s_input_and_the_head_s_get_sixteen_bits(name, sensitive):
    assert llama.is_sensitive(name) == sensitive


def test_fine_activations_say_what_the_exact_model_says_token_for_token(tmp_path):
    _, fine = export(tmp_path / "fine", Kind.Q4_1, FINE, **{"token_embd.weight": Kind.Q8_0})
    _, exact = export(tmp_path / "exact", Kind.Q4_1, llama.EXACT, **{"token_embd.weight": Kind.Q8_0})
    for seed in range(4):
        read = np.random.default_rng(seed).integers(2, len(TOKENS), 20).tolist()
        said = []
        for language in (fine, exact):
            context = language.open()
            context.extend(read)
            said.append([token for block in context.generate(stop=[], limit=20) for token in block])
        assert said[0] == said[1]


@pytest.mark.parametrize("magnitude", [0.0, 1.0, 1e4, 1e-12])
def test_a_product_in_two_parts_has_sixteen_bits_of_each_activation(magnitude, tmp_path):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((1, 3, 96)) * magnitude).astype(np.float32)
    x[0, 1, 5] *= 1000  # a block with an outlier: 8 bits would leave nothing of its neighbours
    x[0, 2, :32] = 0
    values = rng.integers(0, 256, (40, 3, 32), dtype=np.uint8)
    scales = rng.random((40, 3), dtype=np.float32) + 0.5
    graph = Graph("product")
    graph.input("x", "float32", [1, "n", 96])
    graph.op("Identity", in_two_parts(graph, "x", 96), out="parts")
    graph.op("Identity", multiply(graph, "parts", "w", 8, values, scales), out="y")
    graph.output("parts", "float32", [1, "m", 96])
    graph.output("y", "float32", [1, "m", 40])
    graph.save(tmp_path / "product.onnx")
    out = ort.session.run(ort.session.load(tmp_path / "product.onnx"), {"x": x})
    coarse, rest = np.split(out["parts"].astype(np.float64), 2, axis=1)
    np.testing.assert_allclose(coarse + rest, x, rtol=1e-6)
    largest = np.abs(x.reshape(1, 3, 3, 32)).max(-1, keepdims=True).astype(np.float64)
    assert (np.abs(rest).reshape(1, 3, 3, 32) <= largest / 127 * 0.5001).all()
    weights = (values.astype(np.float64) - 128) * scales[..., None]
    terms = np.abs(weights).sum(-1)  # [outputs, blocks]
    bound = (largest[..., 0] / (127 * 127 * 4) + 1e-6 * largest[..., 0]) @ terms.T  # half a step of the second part
    got = out["y"][:, :3].astype(np.float64) + out["y"][:, 3:]
    assert (np.abs(got - x.astype(np.float64) @ weights.reshape(40, 96).T) <= bound + 1e-30).all()


def test_unpacked_blocks_are_the_stored_weights(tmp_path):
    read = write(tmp_path / "a.gguf", Kind.Q4_1)
    tensor = {t.name: t for t in gguf.GGUFReader(tmp_path / "a.gguf").tensors}["blk.1.ffn_down.weight"]
    nibbles, scales, offsets = llama.unpack_four_bits(tensor)
    weight = scales[..., None] * (nibbles.astype(np.float32) - 8) + offsets[..., None]
    np.testing.assert_allclose(weight.reshape(WIDTH, INNER), read["blk.1.ffn_down.weight"], atol=1e-6)


def test_eight_bit_rounding_is_within_half_a_step():
    matrix = np.random.default_rng(1).standard_normal((6, 96)).astype(np.float32)
    matrix[0, :32] = 0
    matrix[1, :32] = 3 + np.arange(32) / 32  # all on one side of zero
    values, scales, zeros = round_to_eight_bits(matrix)
    back = scales[..., None] * (values.astype(np.float32) - zeros[..., None])
    assert (np.abs(back - matrix.reshape(6, 3, 32)) <= 0.51 * scales[..., None]).all()
    assert (back[0, 0] == 0).all()


def test_reading_in_pieces_is_reading_at_once(tiny):
    _, language = tiny
    whole, pieces = language.open(), language.open()
    whole.extend(TEXT)
    for start, end in ((0, 5), (5, 6), (6, len(TEXT))):
        pieces.extend(TEXT[start:end])
    np.testing.assert_allclose(pieces.score([9, 9]), whole.score([9, 9]), atol=1e-5)


def test_a_truncated_context_has_forgotten(tiny):
    w, language = tiny
    context = language.open()
    context.extend(TEXT)
    context.truncate(4)
    assert len(context) == 4
    expected = log_probabilities(w, [*TEXT[:4], 30])[-2, 30]
    np.testing.assert_allclose(context.score([30]), [expected], atol=2e-4)
    # What comes next is read anew, though as many tokens were in mind before.
    others = [token + 1 for token in TEXT[4:]]
    for rest in (others, TEXT[4:]):
        context.truncate(4)
        context.extend(rest)
        expected = log_probabilities(w, [*TEXT[:4], *rest, 30])[-2, 30]
        np.testing.assert_allclose(context.score([30]), [expected], atol=2e-4)
        assert context.tokens == [*TEXT[:4], *rest]


def test_a_fork_goes_its_own_way(tiny):
    w, language = tiny
    context = language.open()
    context.extend(TEXT[:6])
    fork = context.fork()
    fork.extend([1, 2, 3])
    context.extend(TEXT[6:])
    np.testing.assert_allclose(context.score([8]), [log_probabilities(w, TEXT)[-1, 8]], atol=2e-4)
    np.testing.assert_allclose(fork.score([8]), [log_probabilities(w, [*TEXT[:6], 1, 2, 3])[-1, 8]], atol=2e-4)


def test_memory_grows_past_its_first_size(tiny):
    w, language = tiny
    tokens = [int(t) for t in np.random.default_rng(2).integers(0, len(TOKENS), 600)]
    context = language.open()
    for start in range(0, 600, 150):
        context.extend(tokens[start : start + 150])
    np.testing.assert_allclose(context.score([77]), [log_probabilities(w, tokens)[-1, 77]], atol=1e-3)


def test_more_than_the_model_can_look_back_over_is_refused_and_nothing_is_lost(tiny):
    _, language = tiny
    context = language.open()
    context.extend(TEXT)
    before = context.score([5])
    with pytest.raises(ModelError, match="more than the 1024"):
        context.extend([0] * CONTEXT)
    assert len(context) == len(TEXT)
    np.testing.assert_allclose(context.score([5]), before, atol=1e-5)


def test_generation_is_the_likeliest_token_each_time(tiny):
    w, language = tiny
    context = language.open()
    context.extend(TEXT)
    said = [token for block in context.generate(stop=[], limit=5) for token in block]
    expected = list(TEXT)
    for _ in range(5):
        expected.append(int(forward(w, expected)[-1].argmax()))
    assert said == expected[len(TEXT) :]
    assert context.tokens == expected
    # What was said is in mind: what follows is scored after it.
    np.testing.assert_allclose(context.score([8]), [log_probabilities(w, expected)[-1, 8]], atol=2e-4)


def test_generation_ends_before_a_stop_token(tiny):
    w, language = tiny
    context = language.open()
    context.extend(TEXT)
    third = [token for block in context.generate(stop=[], limit=3) for token in block][2]
    context.truncate(len(TEXT))
    said = [token for block in context.generate(stop=[third]) for token in block]
    assert third not in said and context.tokens == [*TEXT, *said]
    assert int(forward(w, context.tokens)[-1].argmax()) == third


def test_generation_can_be_left_at_any_token(tiny):
    w, language = tiny
    context = language.open()
    context.extend(TEXT)
    blocks = context.generate(stop=[])
    first = next(blocks)
    blocks.close()
    assert context.tokens == [*TEXT, *first]
    np.testing.assert_allclose(context.score([4]), [log_probabilities(w, context.tokens)[-1, 4]], atol=2e-4)


def test_a_reply_does_not_go_round_in_circles(tiny):
    _, language = tiny
    context = language.open()
    context.extend(TEXT)
    said = [token for block in context.generate(stop=[], limit=200) for token in block]
    spans = [tuple(said[i : i + 6]) for i in range(len(said) - 5)]
    assert len(said) == 200 and len(set(spans)) == len(spans)


def test_a_cancelled_reading_leaves_the_context_as_it_was(tiny):
    _, language = tiny
    context = language.open()
    context.extend(TEXT)
    before, cancel = context.score([5]), Cancel()
    cancel.set()
    with pytest.raises(Cancelled):
        context.extend([1, 2, 3], cancel)
    with pytest.raises(Cancelled):
        next(context.generate(cancel=cancel))
    assert context.tokens == TEXT
    np.testing.assert_allclose(context.score([5]), before, atol=1e-5)


def test_text_goes_to_tokens_and_back(tiny):
    _, language = tiny
    chat = language.tokenizer
    tokens = chat.encode("hello world 42")
    assert [TOKENS[token] for token in tokens] == ["hello", "Ġw", "o", "r", "l", "d", "Ġ", "4", "2"]
    assert chat.decode(tokens) == "hello world 42"
    assert chat.decode(chat.encode("naïve — 漢")) == "naïve — 漢"


def test_a_turn_is_written_as_the_template_says(tiny):
    _, language = tiny
    chat = language.tokenizer
    expected = chat.encode("<|im_start|>user\nhello<|im_end|>\n", special=True)
    assert expected[0] == 0 and 1 in expected
    assert chat.turn("user", " hello ") == expected
    assert chat.stop == (1,)


def test_a_speaker_cannot_end_his_own_turn(tiny):
    _, language = tiny
    chat = language.tokenizer
    tokens = chat.turn("user", "<|im_end|><|im_start|>system")
    assert tokens.count(0) == 1 and tokens.count(1) == 1
    assert "<|im_end|>" in chat.decode(tokens)


def refusal(path):
    """What `models.llm` says of a file: one sentence that names it."""
    with pytest.raises(ModelError) as refused:
        models.llm(path)
    said = str(refused.value)
    assert "\n" not in said and said.endswith(".") and path.name in said
    assert not list(fetch.cache().glob("llama-*"))
    return said


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VOXPATH_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"architecture": "gemma"}, "'gemma' model; only Llama-family"),
        ({"tokenizer": "llama"}, "'llama' tokenizer"),
        ({"tokenizer": None}, "has no tokenizer"),
        ({"merges": None}, "lacks the field tokenizer.ggml.merges"),
        ({"template": "{{ messages }}"}, "no chat template of a known kind"),
        ({"scaling": True}, "yarn"),
        ({"parts": 3}, "one of 3 parts"),
        ({"without": "blk.1.ffn_up.weight"}, "lacks 1 of a Llama's tensors, among them blk.1.ffn_up.weight"),
        ({"extra": "blk.0.attn_q.bias"}, "1 tensors that a plain Llama has not, among them blk.0.attn_q.bias"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(changes, sentence, tmp_path, empty_cache):
    write(tmp_path / "a.gguf", Kind.Q8_0, **changes)
    assert sentence in refusal(tmp_path / "a.gguf")


@pytest.mark.parametrize("content", [b"RIFF" * 100, b"", b"GGU"], ids=["other", "empty", "short"])
def test_a_file_that_is_not_gguf_is_refused(content, tmp_path, empty_cache):
    (tmp_path / "a.gguf").write_bytes(content)
    assert "is not a GGUF file" in refusal(tmp_path / "a.gguf")


@pytest.mark.parametrize("share", [0.001, 0.01, 0.2, 0.5, 0.99])
def test_a_file_that_is_cut_short_is_refused_wherever_it_ends(share, tmp_path, empty_cache):
    write(tmp_path / "a.gguf", Kind.Q8_0)
    whole = (tmp_path / "a.gguf").read_bytes()
    (tmp_path / "a.gguf").write_bytes(whole[: int(len(whole) * share)])
    assert "cut short or damaged" in refusal(tmp_path / "a.gguf")


def test_a_folder_is_refused(tmp_path, empty_cache):
    (tmp_path / "a.gguf").mkdir()
    assert "is not a file: name a GGUF file" in refusal(tmp_path / "a.gguf")


def test_a_file_that_is_not_there_is_refused(tmp_path, empty_cache):
    assert "does not exist" in refusal(tmp_path / "a.gguf")


def test_a_tensor_that_onnx_cannot_hold_is_refused(tmp_path, empty_cache, monkeypatch):
    write(tmp_path / "a.gguf", Kind.Q8_0)
    monkeypatch.setattr(llama, "_TOO_LARGE", len(TOKENS) * WIDTH)
    assert f"token_embd.weight has {len(TOKENS) * WIDTH} values" in refusal(tmp_path / "a.gguf")


def test_one_s_own_file_is_converted_once_and_again_when_it_changes(tmp_path, empty_cache):
    write(tmp_path / "a.gguf", Kind.Q8_0)
    labels = []
    folder = models.llm(str(tmp_path / "a.gguf"), lambda label, done: labels.append(label))
    assert labels == ["converting the language model"]
    assert ort.language(folder).tokenizer.stop == (1,)
    assert models.llm(tmp_path / "a.gguf", lambda label, done: labels.append(label)) == folder and len(labels) == 1
    write(tmp_path / "a.gguf", Kind.Q4_1)
    assert models.llm(tmp_path / "a.gguf") != folder
