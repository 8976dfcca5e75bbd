#!/usr/bin/env python3
"""A small Florence-2 that learned two pictures by heart, and what transformers makes of it, in florence2/:

model/                as hubs have transformers' folders: weights, tokenizer with <loc_N>, processor
original/             the same weights under the names of Microsoft's folders, whose tokenizer lacks <loc_N>
pictures/             pictures of unequal sizes; c.png was not learned
florence2.safetensors in.pixels, and of it out.tokens (tower and projection), out.encoder, out.logits of the ids in.prompt and in.decoder
florence2.json        cases of a prompt with the ids that `generate` gives for all pictures at once, and what transformers' processor reads in them;
                      strings with their ids
"""
import json
import shutil

import torch
from PIL import Image, ImageDraw
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer
from transformers import AddedToken, BartTokenizer, Florence2Config, Florence2ForConditionalGeneration, Florence2Processor
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from make_encoders import HERE, rounded

OUT = HERE / "florence2"
SIDE, STEPS = 64, 400
MARKS = ["<od>", "</od>", "<ocr>", "</ocr>", *(f"<loc_{i}>" for i in range(1000)), "<cap>", "</cap>", "<ncap>", "</ncap>", "<dcap>", "</dcap>", "<grounding>",
         "</grounding>", "<seg>", "</seg>", "<sep>", "<region_cap>", "</region_cap>", "<region_to_desciption>", "</region_to_desciption>", "<proposal>",
         "</proposal>", "<poly>", "</poly>", "<and>"]
VISION = dict(depths=[1, 2, 1], patch_size=[7, 3, 3], patch_stride=[4, 2, 2], patch_padding=[3, 1, 1], patch_prenorm=[False, True, True], embed_dim=[8, 16, 32],
              num_heads=[2, 2, 4], num_groups=[2, 4, 4], window_size=3, projection_dim=32, max_temporal_embeddings=10, max_position_embeddings=10)
TEXT = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=48,
            max_position_embeddings=128, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, scale_embedding=False, forced_bos_token_id=0,
            forced_eos_token_id=2, bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2, tie_word_embeddings=True)
RULES = dict(num_beams=3, no_repeat_ngram_size=3, early_stopping=True, forced_bos_token_id=0, forced_eos_token_id=2, bos_token_id=0, pad_token_id=1,
             eos_token_id=2, decoder_start_token_id=2)


def boxes(*numbers):
    return "".join(f"<loc_{n}>" for n in numbers)


ANSWERS = {
    "<CAPTION>": ["a red square", "a blue bar over a yellow dot"],
    "<DETAILED_CAPTION>": ["a red square on a white wall", "a blue bar over a yellow dot on a green wall"],
    "<MORE_DETAILED_CAPTION>": ["A red square hangs on a white wall. It is large.", "A blue bar lies over a yellow dot. The wall is green."],
    "<OD>": ["square" + boxes(100, 200, 500, 700), "bar" + boxes(50, 100, 900, 300) + "dot" + boxes(400, 500, 600, 800)],
    "<DENSE_REGION_CAPTION>": ["red square" + boxes(100, 200, 500, 700), "blue bar" + boxes(50, 100, 900, 300) + "yellow dot" + boxes(400, 500, 600, 800)],
    "<OCR_WITH_REGION>": ["SALE" + boxes(120, 300, 480, 300, 480, 400, 120, 400), ""],
    "<CAPTION_TO_PHRASE_GROUNDING>a wall. it": ["a wall" + boxes(0, 0, 999, 999) + "it" + boxes(5, 5, 900, 900), "a wall" + boxes(0, 20, 999, 980)],
    "<GENERATE_TAGS>": ["square, red, wall", "bar, dot, blue, yellow"],
    "What colour is it?": ["red", "blue"],
}
STRINGS = ["What does the image describe?", "Locate the phrases in the caption: a wall. it", "it's I'll we've  two  blanks\n\nand lines ", "über 12345 cafés, 東京!", "",
           "<GENERATE_TAGS>", "red<loc_5><loc_999>", " <mask> x"]


def draw_pictures():
    (OUT / "pictures").mkdir()
    for name, size, ground, shapes in (("a", (60, 48), "white", [((6, 10, 30, 33), "red")]), ("b", (40, 56), "green", [((2, 6, 36, 17), "blue"), ((16, 28, 24, 45), "yellow")]),
                                       ("c", (64, 64), "purple", [((20, 20, 50, 60), "orange")])):
        picture = Image.new("RGB", size, ground)
        for box, colour in shapes:
            ImageDraw.Draw(picture).rectangle(box, colour)
        picture.save(OUT / f"pictures/{name}.png", optimize=True)


def tokenizers():
    """BART's kind, trained on what is asked and answered, without and with the marks of places."""
    bpe = ByteLevelBPETokenizer()
    texts = [*STRINGS, *(a for pair in ANSWERS.values() for a in pair)]
    bpe.train_from_iterator([t.replace("<loc_", " ") for t in texts], vocab_size=380, min_frequency=1, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False)
    bpe.add_special_tokens(["<mask>"])
    model = json.loads(bpe.to_str())["model"]
    vocab, merges = model["vocab"] | {"<mask>": len(model["vocab"])}, [tuple(m) for m in model["merges"]]
    bare, whole = (BartTokenizer(vocab=vocab, merges=merges) for _ in range(2))
    whole.add_tokens([AddedToken(t, special=True) for t in MARKS], special_tokens=True)
    whole.add_tokens([AddedToken("<image>", special=True, normalized=False)], special_tokens=True)
    whole.image_token, whole.image_token_id = "<image>", whole.convert_tokens_to_ids("<image>")
    return bare, whole


def processor_of(tokens):
    pictures = CLIPImageProcessorPil(size={"height": SIDE, "width": SIDE}, do_center_crop=False, crop_size={"height": SIDE, "width": SIDE}, resample=3,
                                     image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])
    pictures.image_seq_length = (SIDE // 16) ** 2 + 1
    parts = ("ocr", "phrase_grounding", "pure_text", "description_with_bboxes", "description_with_polygons", "polygons", "bboxes", "description_with_bboxes_or_polygons")
    rules = {name: {} for name in parts} | {"phrase_grounding": {"banned_grounding_tokens": ["it", "the image"]}}
    return Florence2Processor(image_processor=pictures, tokenizer=tokens, post_processor_config=rules)


class Peer:
    def __init__(self, model, process):
        self.model, self.process, self.tokens = model, process, process.tokenizer
        self.pictures = [Image.open(OUT / f"pictures/{n}.png").convert("RGB") for n in "abc"]
        self.pixels = process.image_processor(self.pictures, return_tensors="pt")["pixel_values"]

    def ids_of(self, prompt, rows):
        text = self.process._construct_prompts(prompt)[0]
        ids = self.tokens("<s>" + text + "</s>", add_special_tokens=False).input_ids
        return torch.tensor([[self.tokens.image_token_id] * self.process.num_image_tokens + ids] * rows)

    def learn(self):
        """All prompts and both pictures in one batch, padded."""
        prompts, answers = [p for p in ANSWERS for _ in range(2)], [a for pair in ANSWERS.values() for a in pair]
        rows = [self.ids_of(p, 1)[0].tolist() for p in prompts]
        longest = max(len(r) for r in rows)
        ids = torch.tensor([r + [1] * (longest - len(r)) for r in rows])
        labels = self.tokens(["<s>" + a + "</s>" for a in answers], add_special_tokens=False, padding=True, return_tensors="pt").input_ids
        labels[labels == 1] = -100
        pixels = self.pixels[:2].repeat(len(ANSWERS), 1, 1, 1)
        optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=STEPS)
        for step in range(STEPS):
            loss = self.model(input_ids=ids, attention_mask=(ids != 1).long(), pixel_values=pixels, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if step % 20 == 19:
                print(step, float(loss.detach()), flush=True)

    @torch.no_grad()
    def generate(self, prompt, beams, new):
        return self.model.generate(input_ids=self.ids_of(prompt, 3), pixel_values=self.pixels, max_new_tokens=new, do_sample=False, **(RULES | {"num_beams": beams}))

    def case(self, prompt, beams, new):
        task = next((t for t in self.process.tasks_answer_post_processing_type if prompt.startswith(t)), "")
        rows, read = [], []
        for row, picture in zip(self.generate(prompt, beams, new).tolist(), self.pictures):
            row = row[2:]  # without the tokens that it begins with
            end = row.index(2) if 2 in row else len(row)
            rows.append(row[:end])
            text = self.tokens.decode(rows[-1])
            read.append(self.process.post_process_generation(text, task=task, image_size=picture.size)[task] if task else text)
        print(prompt, beams, new, read)
        return {"prompt": prompt, "beams": beams, "max_new_tokens": new, "ids": rows, "read": read}

    @torch.no_grad()
    def numbers(self):
        ids, decoder = self.ids_of("<CAPTION>", 3), torch.tensor([[2, 0, 300, 20, 7, 400]] * 3)
        model = self.model.model
        embedded = model.get_input_embeddings()(ids)
        seen = model.get_image_features(self.pixels).pooler_output
        embedded[:, :seen.shape[1]] = seen
        out = self.model(input_ids=ids, pixel_values=self.pixels, decoder_input_ids=decoder)
        encoder = model.language_model.encoder(inputs_embeds=embedded).last_hidden_state
        save_file({"in.pixels": self.pixels, "in.prompt": ids[0, seen.shape[1]:].contiguous(), "in.decoder": decoder, "out.tokens": seen, "out.encoder": encoder,
                   "out.logits": out.logits.to(torch.float32)}, OUT / "florence2.safetensors")


def original_name(name):
    """What Microsoft's files call a tensor; "" for what they hold under another name too."""
    if name == "lm_head.weight":
        return ""
    name = name.removeprefix("model.")
    if name.startswith("language_model."):
        return name.replace("language_model.", "language_model.model.", 1)
    if name.startswith("multi_modal_projector."):
        return name.removeprefix("multi_modal_projector.").replace("image_projection.weight", "image_projection").replace("image_position_embed", "image_pos_embed")
    for ours, theirs in ((".conv.", ".proj."), (".conv1.", ".conv1.fn.dw."), (".conv2.", ".conv2.fn.dw."), (".ffn.fc", ".ffn.fn.net.fc"), (".norm2.", ".ffn.norm."),
                         ("_attn.qkv.", "_attn.fn.qkv."), ("_attn.proj.", "_attn.fn.proj."), ("spatial_block.norm1.", "spatial_block.window_attn.norm."),
                         ("channel_block.norm1.", "channel_block.channel_attn.norm.")):
        name = name.replace(ours, theirs)
    return name


def write_original(bare, model):
    folder = OUT / "original"
    folder.mkdir()
    bare.save_pretrained(folder)
    tensors = {original_name(n): t for n, t in load_file(OUT / "model/model.safetensors").items()}
    tensors.pop("", None)
    tensors["image_projection"] = tensors["image_projection"].T.contiguous()
    tensors["language_model.final_logits_bias"] = torch.zeros(1, TEXT["d_model"], dtype=torch.bfloat16)
    save_file(tensors, folder / "model.safetensors")
    vision = {k: v for k, v in VISION.items() if not k.startswith("max_") and k != "embed_dim"}
    vision |= {"model_type": "davit", "dim_embed": VISION["embed_dim"], "image_pos_embed": {"type": "learned_abs_2d", "max_pos_embeddings": VISION["max_position_embeddings"]},
               "visual_temporal_embedding": {"type": "COSINE", "max_temporal_embeddings": VISION["max_temporal_embeddings"]},
               "image_feature_source": ["spatial_avg_pool", "temporal_avg_pool"]}
    (folder / "config.json").write_text(json.dumps({"model_type": "florence2", "vision_config": vision, "text_config": TEXT, "projection_dim": 32}) + "\n")
    shutil.copy(OUT / "model/preprocessor_config.json", folder)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    torch.manual_seed(47)
    torch.set_num_threads(1)
    draw_pictures()
    bare, whole = tokenizers()
    config = Florence2Config(text_config={"model_type": "bart", "vocab_size": len(whole), **TEXT}, vision_config=VISION, image_token_id=whole.image_token_id)
    peer = Peer(Florence2ForConditionalGeneration(config).train(), processor_of(whole))
    peer.learn()
    model = rounded(peer.model.eval())
    model.to(torch.bfloat16).save_pretrained(OUT / "model")
    whole.save_pretrained(OUT / "model")
    peer.process.image_processor.save_pretrained(OUT / "model")
    settings = json.loads((OUT / "model/preprocessor_config.json").read_text())
    (OUT / "model/preprocessor_config.json").write_text(json.dumps(settings | {"image_seq_length": peer.process.num_image_tokens}) + "\n")
    (OUT / "model/generation_config.json").write_text(json.dumps(RULES) + "\n")
    write_original(bare, model)
    peer.model = Florence2ForConditionalGeneration.from_pretrained(OUT / "model", dtype=torch.float32).eval()
    peer.numbers()
    cases = [peer.case(prompt, beams, 30) for prompt in ANSWERS for beams in (1, 3)] + [peer.case("<MORE_DETAILED_CAPTION>", beams, 6) for beams in (1, 3)]
    ids = {text: whole(text, add_special_tokens=False).input_ids for text in STRINGS}
    (OUT / "florence2.json").write_text(json.dumps({"cases": cases, "strings": ids}) + "\n")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


if __name__ == "__main__":
    main()
