"""Makes clips/: small clips of every kind that the reader of clips must get right, by Debian's ffmpeg.

In most of them frame n is gray of luma 16 + 5n, so that a frame tells its number.

Usage: python3 make_clips.py
"""
import pathlib
import shlex
import subprocess

FOLDER = pathlib.Path(__file__).parent / "clips"
GRAY = "-f lavfi -i \"color=black:s=64x48:r=30:d=2,geq=lum='16+5*N':cb=128:cr=128\""
X264 = "-c:v libx264 -qp 0 -pix_fmt yuv420p"


def make(name, arguments):
    subprocess.run(["ffmpeg", "-v", "error", "-y", *shlex.split(arguments), name], cwd=FOLDER, check=True)


def main():
    FOLDER.mkdir(exist_ok=True)
    make("base30.mp4", f"{GRAY} -frames:v 40 {X264} -g 12")
    make("opengop.mp4", f"{GRAY} -frames:v 40 {X264} -x264-params keyint=12:bframes=3:b-adapt=0:open-gop=1:scenecut=0")
    make("vfr.mp4", f"{GRAY} {X264} -vf select='not(eq(mod(n\\,3)\\,1))' -vsync vfr -frames:v 24 -video_track_timescale 90000")
    quarters = "color=black:s=64x32:r=10:d=0.5,geq=lum='40+50*(gte(X,32)+2*gte(Y,16))':cb=128:cr=128"
    make("quad.mp4", f"-f lavfi -i \"{quarters}\" {X264}")
    for angle in 90, 180, 270:
        make(f"rot{angle}.mp4", f"-i quad.mp4 -c copy -metadata:s:v:0 rotate={angle}")
    for matrix in "bt709", "smpte170m":
        for levels in "tv", "pc":
            make(f"red_{matrix}_{levels}.mp4",
                 f"-f lavfi -i color=red:s=64x48:r=10:d=0.3 -vf scale=out_color_matrix={matrix}:out_range={levels},format=yuv420p "
                 f"-c:v libx264 -qp 0 -colorspace {matrix} -color_primaries {matrix} -color_trc {matrix} -color_range {levels}")
    # Frames of many colours, with what swscale makes of them.
    for matrix, levels in ("bt709", "tv"), ("smpte170m", "tv"), ("bt709", "pc"):
        name = f"colors_{matrix}_{levels}"
        make(f"{name}.mp4", f"-f lavfi -i testsrc2=s=98x50:r=10:d=0.1 -vf scale=out_color_matrix={matrix}:out_range={levels},format=yuv420p "
             f"-c:v libx264 -qp 8 -colorspace {matrix} -color_primaries {matrix} -color_trc {matrix} -color_range {levels}")
        make(f"{name}.png", f"-i {name}.mp4 -vf scale=in_color_matrix={matrix}:in_range={levels}"
             ":flags=bicubic+accurate_rnd+full_chroma_int+bitexact -pix_fmt rgb24 -frames:v 1")
    x265 = "-c:v libx265 -pix_fmt yuv420p10le -tag:v hvc1 -x265-params log-level=none"
    make("hdr10.mp4", f"-f lavfi -i testsrc2=s=64x48:r=10:d=0.3 {x265} -colorspace bt2020nc -color_primaries bt2020 -color_trc smpte2084")
    make("tenbit.mp4", f"-f lavfi -i \"color=black:s=64x48:r=10:d=0.5,geq=lum=16+20*N:cb=128:cr=128\" {x265}:lossless=1")
    make("odd.webm", "-f lavfi -i testsrc=s=97x63:r=10:d=0.5 -c:v libvpx-vp9 -crf 50 -b:v 0")
    make("ntsc.mp4", f"{GRAY.replace('r=30', 'r=30000/1001')} -frames:v 40 {X264}")
    make("sar.mp4", f"-f lavfi -i color=gray:s=32x48:r=10:d=0.3 -vf setsar=2/1 {X264}")
    make("inter.mp4", f"{GRAY} -frames:v 20 -vf interlace {X264} -flags +ildct+ilme")
    make("base.ts", f"{GRAY} -frames:v 20 {X264} -f mpegts")
    make("base.mkv", f"{GRAY} -frames:v 40 -c:v libvpx-vp9 -lossless 1")
    make("frag.mp4", "-i base30.mp4 -c copy -movflags +frag_keyframe+empty_moov")
    make("cut.mp4", "-ss 0.5 -i base30.mp4 -c copy")  # an edit list: the frames from the key before on are in it
    make("base.gif", f"{GRAY} -frames:v 40 -vf fps=10,format=gray")
    make("anim.webp", f"{GRAY} -frames:v 40 -vf fps=10 -c:v libwebp_anim -lossless 1 -loop 0")
    # Transparent in part: the left half is opaque, and of the right half frame n has 40 + 40n of 255; of the GIF it is clear.
    clear = "-f lavfi -i \"color=red:s=64x48:r=10:d=0.5,format=rgba,geq=r=200:g=60:b=60:a='if(lt(X,32),255,40+40*N)'\" -fflags +bitexact"
    make("alpha.webm", f"{clear} -c:v libvpx-vp9 -pix_fmt yuva420p -crf 20 -b:v 0 -flags +bitexact")
    make("alpha_vp8.webm", f"{clear} -c:v libvpx -pix_fmt yuva420p -crf 10 -b:v 1M -auto-alt-ref 0 -flags +bitexact")
    make("alpha_prores.mov", f"{clear} -c:v prores_ks -profile:v 4444 -pix_fmt yuva444p10le -flags +bitexact")
    make("alpha_qtrle.mov", f"{clear} -c:v qtrle -flags +bitexact")
    make("alpha_png.mov", f"{clear} -c:v png -flags +bitexact")
    make("alpha.webp", f"{clear} -c:v libwebp_anim -lossless 1 -loop 0")
    make("alpha.gif", f"{clear.replace('40+40*N', '0')} -vf split[a][b];[a]palettegen=reserve_transparent=1[p];[b][p]paletteuse -flags +bitexact")
    long = GRAY.replace("r=30:d=2", "r=10:d=20").replace("5*N", "5*mod(N,40)")
    make("long.mp4", f"{long} {X264} -x264-params keyint=30:bframes=3:b-adapt=0:open-gop=1:scenecut=0")
    make("long.mkv", "-i long.mp4 -c copy")
    # Sound with one click, at 0.5 s: beside frames of 25 a second, delayed by 0.3 s, cut by an edit list, and alone.
    click = "-f lavfi -i \"aevalsrc='if(between(t,0.5,0.5005),0.9,0)|if(between(t,0.5,0.5005),0.3,0)':s={}:d=1\""
    frames = "-f lavfi -i \"color=black:s=32x16:r=25:d=1,geq=lum='16+5*N':cb=128:cr=128\""
    make("sound.mp4", f"{frames} {click.format(44100)} {X264} -g 12 -c:a aac -b:a 48k")
    make("sound.mkv", f"{frames} {click.format(48000)} {X264} -g 12 -c:a libopus -b:a 32k")
    make("sound_late.mp4", "-i sound.mp4 -itsoffset 0.3 -i sound.mp4 -map 0:v -map 1:a -c copy")
    make("sound_cut.mp4", "-ss 0.4 -i sound.mp4 -c copy")
    make("sound.wav", f"{click.format(4000)} -t 0.6 -c:a pcm_s16le -fflags +bitexact")
    make("faststart.mp4", "-i base30.mp4 -c copy -movflags +faststart")
    whole = (FOLDER / "faststart.mp4").read_bytes()
    (FOLDER / "truncated.mp4").write_bytes(whole[:len(whole) * 7 // 8])
    (FOLDER / "faststart.mp4").unlink()


if __name__ == "__main__":
    main()
